//! Metadata as lines of their own, for readers of SSE that want fields rather than JSON.

use super::branches::PerBranch;
use super::options::{BranchName, EncoderOptions};
use crate::record::Record;
use crate::sse::decimal::push_decimal;
use crate::sse::json::push_one_line;

/// Writes the lines `model-id`, `chunk-id` and `token-count`.
#[derive(Clone, Debug)]
pub(super) struct FieldLines {
    /// Up to the seq that makes the chunk id unique.
    heads: PerBranch<Vec<u8>>,
}

impl FieldLines {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        Self {
            heads: options.per_branch(head),
        }
    }

    pub(super) fn push(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.heads.of(record.branch));
        push_decimal(record.seq, out);
        out.extend_from_slice(b"\ntoken-count: ");
        push_decimal(u64::from(record.token_count), out);
        out.push(b'\n');
    }
}

/// A line end in a name would begin a line of the caller's making, so it becomes a space.
fn head(name: &BranchName) -> Vec<u8> {
    let mut head = b"model-id: ".to_vec();
    push_one_line(&name.model, &mut head);
    head.extend_from_slice(b"\nchunk-id: ");
    push_one_line(&name.chunk_id, &mut head);
    head.push(b'-');
    head
}
