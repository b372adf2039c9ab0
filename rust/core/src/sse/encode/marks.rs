//! What the log knows about a record beyond the record itself.

use std::fmt;

use crate::log::{Checks, Leaf};

/// Reads the whole text of a branch's choice out of the log.
pub type ChoiceText<'a> = &'a dyn Fn(u8, u16) -> String;

/// What the log knows about the record that is encoded; none of it without a log.
#[derive(Clone, Copy, Default)]
pub struct Marks<'a> {
    /// CRC-32 of the text up to and with this record, in a stream with integrity checks.
    pub crc: Option<u32>,
    /// The leaf that this record completed.
    pub leaf: Option<&'a Leaf>,
    /// The sum of the whole text, with the terminal record only.
    pub checks: Option<&'a Checks>,
    /// The text of the choices so far.
    pub text: Option<ChoiceText<'a>>,
}

impl fmt::Debug for Marks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marks")
            .field("crc", &self.crc)
            .field("leaf", &self.leaf)
            .field("checks", &self.checks)
            .finish_non_exhaustive()
    }
}

impl Marks<'_> {
    /// Nothing is known.
    pub const NONE: Self = Self {
        crc: None,
        leaf: None,
        checks: None,
        text: None,
    };
}
