use thiserror::Error;

use super::decision::MAX_COST;
use super::quota::{MAX_PERIOD_NS, MAX_SLOTS};
use super::scopes::MAX_SCOPES;

/// A call or a quota that makes no sense; found before any state is touched.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LimiterError {
    /// A cost below zero or above [`MAX_COST`].
    #[error("a cost must lie in 0..={MAX_COST}, not {0}")]
    CostOutOfRange(i64),
    /// A reservation of nothing; looking costs nothing through `peek`.
    #[error("nothing to reserve: use peek to look without taking")]
    NothingToReserve,
    /// A prompt that is larger than the whole reservation.
    #[error("the prompt of {prompt} tokens exceeds the reservation of {tokens}")]
    PromptExceedsTokens {
        /// Tokens of the prompt.
        prompt: u64,
        /// Tokens reserved in all.
        tokens: u64,
    },
    /// A burst or a limit above [`MAX_COST`].
    #[error("a limit must lie in 0..={MAX_COST}, not {0}")]
    LimitOutOfRange(u64),
    /// A period or window of no length, or above [`MAX_PERIOD_NS`].
    #[error("a period must lie in 1..={MAX_PERIOD_NS} ns, not {0}")]
    PeriodOutOfRange(u64),
    /// A window cut into no slots, or into more than [`MAX_SLOTS`].
    #[error("a window has 1..={MAX_SLOTS} slots, not {0}")]
    SlotsOutOfRange(usize),
    /// No scope, or more than [`MAX_SCOPES`].
    #[error("a decision spans 1..={MAX_SCOPES} scopes, not {0}")]
    ScopesOutOfRange(usize),
    /// The same key twice in one decision.
    #[error("the scopes name one key twice")]
    DuplicateKey,
    /// Scopes or a lease that another limiter made.
    #[error("the scopes or the lease belong to another limiter")]
    ForeignLimiter,
    /// A limiter without keys or shards, or with more shards than a lease can name.
    #[error("a limiter needs 1..=65536 shards and at least one key for each")]
    NoRoom,
}
