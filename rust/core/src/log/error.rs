use thiserror::Error;

use super::cursor::Gap;

/// Why a log refuses.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LogError {
    /// A bound that no log can keep.
    #[error("{name} must be between 1 and {max}, not {value}")]
    Bound {
        /// The option.
        name: &'static str,
        /// What was asked for.
        value: usize,
        /// The largest value allowed.
        max: usize,
    },
    /// The stream has its outcome already.
    #[error("the log is closed")]
    Closed,
    /// The terminal record is written by `close`, once.
    #[error("the terminal record is written by close()")]
    EndByAppend,
    /// A cursor that points past everything written so far.
    #[error("cursor {after} is ahead of the tail {tail}")]
    Ahead {
        /// The seq that the reader claims to have.
        after: u64,
        /// The last seq written.
        tail: u64,
    },
    /// The beginning of the stream is no longer kept.
    #[error("records before {} are no longer kept (latest {})", .0.oldest, .0.latest)]
    Trimmed(Gap),
}
