//! What can be wrong with a step.

/// A step that does not fit the cache; nothing was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttentionError {
    /// Head sizes must be multiples of 32 and query heads a multiple of key/value heads.
    #[error("a head of {head_dim} values, {heads} heads on {kv_heads}: not supported")]
    Shape {
        /// Values of one head.
        head_dim: usize,
        /// Query heads.
        heads: usize,
        /// Key/value heads.
        kv_heads: usize,
    },
    /// No such slot.
    #[error("slot {slot} is not below {slots}")]
    Slot {
        /// What was asked for.
        slot: usize,
        /// How many there are.
        slots: usize,
    },
    /// No such page.
    #[error("page {page} is not below {pages}")]
    Page {
        /// What was asked for.
        page: usize,
        /// How many there are.
        pages: usize,
    },
    /// A row computes a position for which its slot has no page.
    #[error("slot {slot} has no page for position {position}")]
    Unmapped {
        /// The row's slot.
        slot: usize,
        /// The position without a page.
        position: usize,
    },
    /// An array does not have the size that the rows ask for.
    #[error("{name} has {found} values, not {expected}")]
    Length {
        /// The array.
        name: &'static str,
        /// Its size.
        found: usize,
        /// The right size.
        expected: usize,
    },
}
