//! The shared-memory queue from the engine process to one worker.
//!
//! Single producer, single consumer, across processes. A record is a run of 8-byte words; it
//! becomes visible when `head` moves past it with release ordering, so a peer killed while
//! writing leaves nothing behind. Neither end believes what the other one wrote: positions,
//! lengths, sequence numbers, kinds and UTF-8 are checked, and every word is an atomic, so that a
//! peer which scribbles over the memory causes a [`RingError::Corrupt`] and nothing worse.

mod consumer;
mod error;
mod layout;
mod memory;
mod outbox;
mod pending;
mod producer;
mod reader;
mod signal;
mod storage;
mod writer;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use consumer::Consumer;
pub use error::{Corruption, RingError};
pub use layout::{DEFAULT_CAPACITY, MAX_CAPACITY, MAX_TEXT_BYTES, MIN_CAPACITY, RingRecord};
pub use outbox::Outbox;
pub use producer::Producer;
pub use signal::adopt;
pub(crate) use signal::{Notifier, Waiter};
