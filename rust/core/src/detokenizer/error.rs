use thiserror::Error;

use crate::ring::RingError;

/// Why ids cannot become text.
#[derive(Debug, Error)]
pub enum DetokenizerError {
    /// The vocabulary has no such id.
    #[error("token id {id} is outside the vocabulary of {size}")]
    UnknownToken {
        /// The id.
        id: i64,
        /// Ids in the vocabulary.
        size: usize,
    },
    /// The vocabulary's bytes do not fit 32-bit offsets.
    #[error("the vocabulary has more than 4 GiB of text")]
    VocabularyTooLarge,
    /// A stop string without text would stop everything.
    #[error("a stop string is empty")]
    EmptyStop,
    /// The stop strings' text does not fit 32-bit offsets.
    #[error("the stop strings are too long")]
    StopsTooLong,
    /// No choice is open in this slot.
    #[error("slot {0} is not open")]
    UnknownSlot(usize),
    /// A step needs one id for each slot.
    #[error("{slots} slots and {ids} ids in one step")]
    UnevenStep {
        /// How many slots were given.
        slots: usize,
        /// How many ids were given.
        ids: usize,
    },
    /// A record did not fit the ring's rules.
    #[error(transparent)]
    Ring(#[from] RingError),
}
