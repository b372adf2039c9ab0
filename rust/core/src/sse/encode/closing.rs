//! What the last frame says of the stream as a whole.

use super::checks::push_checks;
use super::marks::Marks;
use super::options::{Dialect, EncoderOptions};
use crate::log::Terminal;
use crate::sse::json::push_one_line;

/// Writes `,"checks":{…},"settled":{…}`, each if it was asked for and is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    integrity: bool,
    metadata: bool,
}

impl Closing {
    pub(super) const fn new(options: &EncoderOptions) -> Self {
        Self {
            // Of a Response the checks stand in its event ids alone.
            integrity: options.integrity && !matches!(options.dialect, Dialect::Responses),
            metadata: options.metadata,
        }
    }

    pub(super) fn push(self, terminal: &Terminal<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        if let Some(checks) = marks.checks.filter(|_| self.integrity) {
            push_checks(checks, out);
        }
        if let Some(figures) = terminal.settlement.filter(|_| self.metadata) {
            out.extend_from_slice(b",\"settled\":");
            push_one_line(figures, out);
        }
    }
}
