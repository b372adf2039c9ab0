/// Where the words of a ring lie: shared memory, or loom's atomics in its tests.
///
/// Positions count words since the ring was made and never wrap; `load` and `store` take a
/// position and reduce it themselves.
pub(crate) trait Storage {
    /// Words that records can fill; a power of two.
    fn capacity(&self) -> usize;
    /// The writer's position, with acquire ordering.
    fn head(&self) -> u64;
    /// Publishes the writer's position, with release ordering.
    fn set_head(&self, position: u64);
    /// The reader's position, with acquire ordering.
    fn tail(&self) -> u64;
    /// Publishes the reader's position, with release ordering.
    fn set_tail(&self, position: u64);
    /// One word, relaxed.
    fn load(&self, position: u64) -> u64;
    /// Sets one word, relaxed.
    fn store(&self, position: u64, word: u64);
}
