use std::io;

use thiserror::Error;

/// What the peer left in the memory that cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Corruption {
    /// Magic, version, capacity or size of the memory are not those of a ring.
    #[error("the memory does not hold a ring of this version")]
    Header,
    /// The memory could be cut off under our feet.
    #[error("the memory is not sealed against shrinking")]
    Unsealed,
    /// The writer's position is not ahead of the reader's by at most the capacity.
    #[error("the head is out of range")]
    Head,
    /// The reader's position moved back, or past what was written.
    #[error("the tail is out of range")]
    Tail,
    /// A record is longer than what was written, or than any record may be.
    #[error("a record's length is out of range")]
    Length,
    /// A record does not follow its predecessor.
    #[error("a record is out of sequence")]
    Sequence,
    /// A record's kind does not exist.
    #[error("a record's kind is unknown")]
    Kind,
    /// A record's text is not UTF-8.
    #[error("a record's text is not UTF-8")]
    Text,
}

/// Why a ring cannot be made, or cannot be used any further.
#[derive(Debug, Error)]
pub enum RingError {
    /// The peer broke the protocol; the ring stays unusable.
    #[error("ring corrupted: {0}")]
    Corrupt(#[from] Corruption),
    /// The capacity is no power of two in the allowed range.
    #[error("ring capacity must be a power of two from 4096 to 1073741824 bytes, not {0}")]
    Capacity(usize),
    /// The text of one record exceeds what a record may carry.
    #[error("a record's text has {bytes} bytes, at most {limit} fit")]
    TooLong {
        /// Length of the refused text.
        bytes: usize,
        /// Longest text that this ring takes.
        limit: usize,
    },
    /// The operating system refused.
    #[error("ring: {0}")]
    Io(#[from] io::Error),
}
