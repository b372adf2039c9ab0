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
//!
//! # The bound
//! A reservation is charged when it is admitted; what it did not use is taken off that charge; what
//! a lease used beyond its reservation (its over-run) is charged when it is settled. Then for every
//! key with a limit of `L` tokens in a window `W`:
//!
//! - At the instant of an admission the tokens charged in the window that ends there, over-runs and
//!   the admitted reservation included, are at most `L`.
//! - The tokens charged in any window are at most `L` plus the over-runs that were settled after
//!   the last admission of that window: one estimate's error when leases over-run one at a time,
//!   the sum when several that were open together do, nothing when costs are never underestimated.
//!   The next admission waits until they are paid.
//!
//! A window is a stretch in which the clock moves ahead by less than `W`: steps back count for
//! nothing, steps ahead as time, as nothing tells them from waiting. In the long run a clock that
//! is set back and right again gives no more than one that runs true. Shown by
//! `tests/limiter_bound.rs` with 64 threads, and by `tests/property/test_limiter_bound.py`.

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
