use super::error::RingError;
use crate::record::Kind;

/// Capacity that workers ask for, in bytes.
pub const DEFAULT_CAPACITY: usize = 8 << 20;
/// Smallest capacity in bytes.
pub const MIN_CAPACITY: usize = 4 << 10;
/// Largest capacity in bytes.
pub const MAX_CAPACITY: usize = 1 << 30;
/// Longest text of one record in bytes; rings under 1 MiB take a quarter of their capacity.
pub const MAX_TEXT_BYTES: usize = 256 << 10;

pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"MILLRING");
pub(crate) const VERSION: u64 = 1;

pub(crate) const WORD_BYTES: usize = 8;
pub(crate) const HEADER_WORDS: usize = 512;
pub(crate) const MAGIC_WORD: usize = 0;
pub(crate) const VERSION_WORD: usize = 1;
pub(crate) const CAPACITY_WORD: usize = 2;
// 128 bytes apart: the adjacent-line prefetcher pulls cache lines in pairs.
pub(crate) const HEAD_WORD: usize = 16;
pub(crate) const TAIL_WORD: usize = 32;

/// Words of a record before its text.
pub(crate) const RECORD_WORDS: usize = 4;

/// One record on its way to a worker, borrowed from where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRecord<'a> {
    /// The request, as the worker numbered it.
    pub stream: u64,
    /// Wall time in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// What the text means.
    pub kind: Kind,
    /// Which of the `n` choices of the request this belongs to.
    pub choice: u16,
    /// How many tokens the text stands for.
    pub token_count: u32,
    /// The text, whole UTF-8 scalars only.
    pub text: &'a str,
}

pub(crate) const fn check_capacity(bytes: usize) -> Result<(), RingError> {
    if bytes.is_power_of_two() && bytes >= MIN_CAPACITY && bytes <= MAX_CAPACITY {
        Ok(())
    } else {
        Err(RingError::Capacity(bytes))
    }
}

pub(crate) fn max_text_bytes(capacity_words: usize) -> usize {
    MAX_TEXT_BYTES.min(capacity_words * WORD_BYTES / 4)
}

pub(crate) const fn record_words(text_bytes: usize) -> usize {
    RECORD_WORDS + text_bytes.div_ceil(WORD_BYTES)
}

/// The fixed part of a record as it lies in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) sequence: u32,
    pub(crate) text_bytes: u32,
    pub(crate) kind: u16,
    pub(crate) choice: u16,
    pub(crate) token_count: u32,
    pub(crate) stream: u64,
    pub(crate) time_ns: u64,
}

impl Header {
    pub(crate) fn to_words(self) -> [u64; RECORD_WORDS] {
        [
            u64::from(self.sequence) << 32 | u64::from(self.text_bytes),
            u64::from(self.token_count) << 32 | u64::from(self.choice) << 16 | u64::from(self.kind),
            self.stream,
            self.time_ns,
        ]
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes the words apart")]
    pub(crate) const fn from_words(words: [u64; RECORD_WORDS]) -> Self {
        Self {
            sequence: (words[0] >> 32) as u32,
            text_bytes: words[0] as u32,
            token_count: (words[1] >> 32) as u32,
            choice: (words[1] >> 16) as u16,
            kind: words[1] as u16,
            stream: words[2],
            time_ns: words[3],
        }
    }
}
