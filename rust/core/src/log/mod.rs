//! The log of one stream: a bounded store of records that any number of readers follow.
//!
//! Live delivery, resumption and fan-out are all the same thing here: a [`Cursor`] that reads. A
//! reader that finds nothing due parks a waiter under the lock that `append` takes too, so a wake
//! cannot be lost.

mod cursor;
mod doorbell;
mod error;
mod integrity;
mod latency;
mod merkle;
mod shared;
mod store;
mod sync;
mod tally;
mod waiters;
mod wake;

pub use cursor::{Cursor, Gap};
pub use doorbell::Doorbell;
pub use error::LogError;
pub(crate) use integrity::Integrity;
pub use integrity::{Checks, LEAF_TOKENS, Leaf};
pub use latency::{INTER_TOKEN_BOUNDS_NS, InterToken};
pub use merkle::{Digest, Merkle};
pub use shared::{Log, LogOptions};
pub use store::Entry;
pub use wake::WakeQueue;
