//! Attention over a paged cache of keys and values, which reads the pages where they lie.
//!
//! A page holds [`PAGE`] tokens of every key/value head. Values are stored row by row, keys
//! transposed (`head_dim` rows of 32 tokens), so that a score needs no sum across lanes. A unit of
//! work is one (token, key/value head): the query heads of the group share each load.

mod cache;
mod error;
mod exponential;
mod kernel;
mod storage;
mod tables;
mod threads;

pub use cache::{CacheShape, PagedCache};
pub use error::AttentionError;
pub(crate) use exponential::exponential;
pub(crate) use storage::parts;
pub use storage::{Bf16, F32, Storage};
pub use tables::{RowSpec, TokenPlace};
pub use threads::Threads;

/// Tokens in one page, and values in one stored block.
pub const PAGE: usize = 32;
