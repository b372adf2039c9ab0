use thiserror::Error;

/// Why a mirror does not take a batch; it is then as it was before.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BatchError {
    /// The bytes are not those that were packed.
    #[error("the batch is damaged: {0}")]
    Damaged(&'static str),
    /// A version that this program does not know.
    #[error("batches of version {0} are not known")]
    Version(u8),
    /// Records are missing between the mirror and the batch.
    #[error("the batch starts at {first}, the mirror ends at {tail}")]
    Hole {
        /// The first seq in the batch.
        first: u64,
        /// The last seq in the mirror.
        tail: u64,
    },
    /// The mirror's text is not the one that the batch follows.
    #[error("the checks before record {first} differ from those of the mirror")]
    Differs {
        /// The first seq in the batch.
        first: u64,
    },
    /// A branch that the mirror does not have.
    #[error("the batch has records of branch {0}, which the mirror does not have")]
    Branch(u8),
    /// The mirror has its terminal record, and the batch goes on.
    #[error("the mirror has ended before the batch")]
    Closed,
}
