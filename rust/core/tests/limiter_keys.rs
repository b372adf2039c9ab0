//! A flood of keys, in a process of its own as it looks at the memory of all of it.

#![expect(clippy::unwrap_used, reason = "a test file")]

use std::sync::Arc;

use millstream_core::limiter::{Cost, Limiter, LimiterOptions, Quota, RequestRate, TokenWindow};

const SECOND: u64 = 1_000_000_000;
const KEYS: u64 = 2_000_000;
const MAX_KEYS: usize = 100_000;

/// Memory of this process; 0 where nobody tells it.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next())
        .map_or(0, |number| number.parse().unwrap())
}

struct Flood {
    limiter: Limiter,
    quota: Arc<Quota>,
    seen: u64,
}

impl Flood {
    /// New keys, one hit each, every other through a lease, with the clock `step` further at each.
    fn come(&mut self, keys: u64, mut now: u64, step: u64) {
        for _ in 0..keys {
            self.seen += 1;
            now += step;
            let key = format!("tenant:{}", self.seen);
            let scopes = self
                .limiter
                .scopes([(key, Arc::clone(&self.quota))])
                .unwrap();
            let cost = Cost::new(1, 1, 0, 64).unwrap();
            if self.seen.is_multiple_of(2) {
                let _ = self.limiter.take(&scopes, cost, now);
            } else if let Ok(lease) = self.limiter.reserve(&scopes, cost, now) {
                assert!(self.limiter.settle(&lease, 1, now).unwrap());
            }
            if self.seen.is_multiple_of(10_000) {
                assert!(self.limiter.keys() <= MAX_KEYS);
            }
        }
    }
}

/// `PyrateLimiter#156`, `better-auth#4472`, `governor#171`: keys that came once stayed forever.
#[test]
fn two_million_keys_stay_within_the_bound_and_leave() {
    let rate = RequestRate::new(1, SECOND, 1).unwrap();
    let window = TokenWindow::new(10, SECOND, 16).unwrap();
    let quota = Quota::new(Some(rate), Some(window), Some(5), Some(1024)).unwrap();
    let limiter = Limiter::new(LimiterOptions {
        max_keys: MAX_KEYS,
        ..LimiterOptions::default()
    });
    let mut flood = Flood {
        limiter: limiter.unwrap(),
        quota: Arc::new(quota),
        seen: 0,
    };

    let before = resident_kib();
    flood.come(2 * MAX_KEYS as u64, SECOND, 0);
    let bound = resident_kib() - before;
    assert!(flood.limiter.keys() > MAX_KEYS * 9 / 10);

    // While none is idle the others share overflow keys; then all make room for each other.
    flood.come(KEYS / 2, SECOND, 0);
    flood.come(KEYS - flood.seen, 10 * SECOND, 20_000);
    let after = resident_kib() - before;
    assert_eq!(flood.seen, KEYS);
    assert!(
        after <= bound + bound / 2,
        "{after} KiB, {bound} KiB at the bound"
    );

    // Some that stay: every decision looks at a few keys of its shard, so all that are idle are
    // forgotten. They are many, as the hash shares them out and every shard must see its part.
    let hot: Vec<_> = (0..1_024)
        .map(|key| [(format!("hot:{key}"), Arc::clone(&flood.quota))])
        .map(|scope| flood.limiter.scopes(scope).unwrap())
        .collect();
    for step in 0..500 {
        for scopes in &hot {
            let cost = Cost::new(1, 1, 0, 0).unwrap();
            let _ = flood.limiter.take(scopes, cost, 3_600 * SECOND + step);
        }
    }
    assert!(flood.limiter.keys() <= hot.len());
    assert_eq!(flood.limiter.holds(), 0);
    assert!(resident_kib() - before <= bound + bound / 2);
}
