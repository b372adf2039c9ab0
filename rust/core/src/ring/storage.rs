use std::sync::atomic::Ordering;

/// How a position is published: the words written before it are seen with it.
pub(crate) const PUBLISH: Ordering = Ordering::Release;
/// How the peer's position is read: the words that it covers are seen with it.
pub(crate) const OBSERVE: Ordering = Ordering::Acquire;
/// How the words between are reached.
pub(crate) const WORD: Ordering = Ordering::Relaxed;

/// Where the words of a ring lie: shared memory, or loom's atomics in its tests.
///
/// Positions count words since the ring was made and never wrap; `load` and `store` take a
/// position and reduce it themselves.
pub(crate) trait Storage {
    /// Words that records can fill; a power of two.
    fn capacity(&self) -> usize;
    /// The writer's position, as [`OBSERVE`] says.
    fn head(&self) -> u64;
    /// Publishes the writer's position, as [`PUBLISH`] says.
    fn set_head(&self, position: u64);
    /// The reader's position, as [`OBSERVE`] says.
    fn tail(&self) -> u64;
    /// Publishes the reader's position, as [`PUBLISH`] says.
    fn set_tail(&self, position: u64);
    /// One word.
    fn load(&self, position: u64) -> u64;
    /// Sets one word.
    fn store(&self, position: u64, word: u64);
}
