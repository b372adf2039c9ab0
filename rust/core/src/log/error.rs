use thiserror::Error;

/// Why a log refuses.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LogError {
    /// A bound that no log can keep.
    #[error("{name} must be between 1 and {max}, not {value}")]
    Bound {
        /// The option.
        name: &'static str,
        /// What was asked for.
        value: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// The stream has its outcome already.
    #[error("the log is closed")]
    Closed,
    /// The terminal record is written by `close`, once.
    #[error("the terminal record is written by close()")]
    EndByAppend,
    /// Outcomes are words of a closed list.
    #[error("an outcome is one word")]
    Outcome,
    /// The figures go into frames as they are.
    #[error(
        "a settlement is one compact JSON object: charged, reserved, partial, remaining_tokens"
    )]
    Settlement,
    /// A branch that the stream does not have.
    #[error("there is no branch {branch} in a stream of {branches}")]
    Branch {
        /// The branch asked for.
        branch: u8,
        /// How many there are.
        branches: usize,
    },
    /// A cursor that points past everything written so far.
    #[error("cursor {after} is ahead of the tail {tail}")]
    Ahead {
        /// The seq that the reader claims to have.
        after: u64,
        /// The last seq written.
        tail: u64,
    },
    /// The beginning of a text is no longer kept.
    #[error("the first {omitted_bytes} bytes of the text are no longer kept")]
    Omitted {
        /// How many bytes are gone.
        omitted_bytes: u64,
    },
}
