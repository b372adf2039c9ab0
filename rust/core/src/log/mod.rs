//! The log of one stream: a bounded store of records that any number of readers follow.
//!
//! Live delivery, resumption and fan-out are all the same thing here: a [`Cursor`] that reads. A
//! reader that finds nothing due parks a waiter under the lock that `append` takes too, so a wake
//! cannot be lost.

mod batch;
mod branch;
mod cursor;
mod doorbell;
mod error;
mod facts;
mod fold;
mod follow;
mod integrity;
mod latency;
mod merkle;
mod mirror;
mod options;
mod place;
mod progress;
mod records;
mod shared;
mod state;
mod store;
mod sync;
mod tally;
mod terminal;
mod waiters;
mod wake;

pub use batch::{BatchError, first_seq_of};
pub use cursor::{Cursor, Gap};
pub use doorbell::Doorbell;
pub use error::LogError;
pub(crate) use integrity::Integrity;
pub use integrity::Leaf;
pub use latency::{INTER_TOKEN_BOUNDS_NS, InterToken};
pub use merkle::{Digest, Merkle};
pub use mirror::Packed;
pub use options::LogOptions;
pub use progress::{Checks, LEAF_TOKENS};
pub use shared::Log;
pub use store::{Entry, TextSoFar};
pub use terminal::Terminal;
pub use wake::WakeQueue;
