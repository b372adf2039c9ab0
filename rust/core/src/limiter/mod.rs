//! Admission: requests by token bucket, tokens by a true sliding window, concurrency and bytes by
//! what open leases hold, checked together over several keyed scopes, all or nothing.
//!
//! - `quota`: what a key may use. [`Quota`] is passed with the key, so keys may differ and a
//!   changed quota is adopted in place.
//! - `bucket`, `window`, `timeline`: the algorithms, pure functions of time; `held`: what time does
//!   not give back.
//! - `entry`, `store`, `lease`: where the state is kept, bounded and evicted.
//! - `limiter`: [`Limiter`], the shards and their locks.
//!
//! A bucket of burst `b` and rate `r` lets any window `W` see up to `b + r·W` requests: 1200 a
//! minute with a burst of 1200 is at most 2400 in the first minute. The token window has no such
//! slack: no window of its length ever sees more than its limit.

mod bucket;
mod decision;
mod entry;
mod error;
mod held;
mod lease;
#[expect(
    clippy::module_inception,
    reason = "the module is named after its one type"
)]
mod limiter;
mod quota;
mod scopes;
mod store;
mod timeline;
mod window;

pub use decision::{Cost, Denied, Dimension, MAX_COST, Meter, Refusal, Snapshot};
pub use error::LimiterError;
pub use lease::Lease;
pub use limiter::{Limiter, LimiterOptions};
pub use quota::{MAX_PERIOD_NS, MAX_SLOTS, Quota, RequestRate, TokenWindow};
pub use scopes::{MAX_SCOPES, ScopeSet};
