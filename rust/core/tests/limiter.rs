//! The limiter through its public surface: leases, threads, floods of keys.

#![expect(clippy::unwrap_used, reason = "a test file")]

use std::sync::Arc;
use std::thread;

use millstream_core::clock::{Clock, FakeClock};
use millstream_core::limiter::{
    Cost, Denied, Dimension, Lease, Limiter, LimiterError, LimiterOptions, Quota, RequestRate,
    ScopeSet, TokenWindow,
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn quota(
    requests: Option<(u64, u64)>,
    tokens: Option<u64>,
    concurrency: Option<u64>,
) -> Arc<Quota> {
    let requests = requests.map(|(rate, burst)| RequestRate::new(rate, SECOND, burst).unwrap());
    let tokens = tokens.map(|limit| TokenWindow::new(limit, SECOND, 16).unwrap());
    Arc::new(Quota::new(requests, tokens, concurrency, None).unwrap())
}

fn limiter(max_keys: usize, shards: usize) -> Limiter {
    let options = LimiterOptions {
        max_keys,
        shards,
        lease_ttl_ns: 60 * SECOND,
    };
    Limiter::new(options).unwrap()
}

fn one(limiter: &Limiter, key: &str, quota: &Arc<Quota>) -> ScopeSet {
    limiter.scopes([(key, Arc::clone(quota))]).unwrap()
}

fn tokens(tokens: i64) -> Cost {
    Cost::new(1, tokens, 0, 0).unwrap()
}

#[test]
fn a_lease_returns_what_was_not_used() {
    let clock = FakeClock::at(SECOND);
    let limiter = limiter(100, 4);
    let quota = quota(Some((1, 5)), Some(100), Some(1));
    let scopes = one(&limiter, "global", &quota);
    let lease = limiter
        .reserve(&scopes, tokens(90), clock.now_ns())
        .unwrap();
    assert!(limiter.settle(&lease, 40, clock.advance(1)).unwrap());
    assert!(!limiter.settle(&lease, 0, clock.advance(1)).unwrap());
    let snapshot = limiter.peek(&scopes, clock.now_ns()).unwrap();
    assert_eq!(snapshot.tokens.unwrap().remaining, 60);
    assert_eq!(snapshot.requests.unwrap().remaining, 4);
    assert_eq!(snapshot.concurrency.unwrap().remaining, 1);
}

#[test]
fn an_undone_lease_was_never_there() {
    let clock = FakeClock::at(SECOND);
    let limiter = limiter(100, 4);
    let quotas = [
        ("global", quota(Some((3, 5)), Some(100), Some(2))),
        ("model:m", quota(Some((1, 4)), Some(50), Some(1))),
    ];
    let scopes = limiter.scopes(quotas.clone()).unwrap();
    let peek = |now| {
        quotas.each_ref().map(|(key, quota)| {
            let scopes = one(&limiter, key, quota);
            limiter.peek(&scopes, now).unwrap()
        })
    };
    limiter.take(&scopes, tokens(30), clock.now_ns()).unwrap();
    let before = peek(clock.advance(7));
    let lease = limiter
        .reserve(&scopes, tokens(20), clock.now_ns())
        .unwrap();
    assert_ne!(peek(clock.now_ns()), before);
    assert!(limiter.undo(&lease, clock.now_ns()).unwrap());
    assert!(!limiter.undo(&lease, clock.now_ns()).unwrap());
    assert_eq!(peek(clock.now_ns()), before);
    assert_eq!(limiter.holds(), 0);
}

#[test]
fn both_kinds_of_denial_are_errors() {
    let (mine, other) = (limiter(100, 4), limiter(100, 4));
    let quota = quota(None, Some(10), None);
    let scopes = one(&mine, "global", &quota);
    let Err(Denied::Refused(refusal)) = mine.reserve(&scopes, tokens(11), 0) else {
        panic!("a cost above the limit was admitted");
    };
    assert!(refusal.permanent);
    assert_eq!(refusal.dimension, Dimension::Tokens);
    let foreign = other.reserve(&scopes, tokens(1), 0);
    assert_eq!(
        foreign.unwrap_err(),
        Denied::Invalid(LimiterError::ForeignLimiter)
    );
}

#[test]
fn threads_that_name_the_scopes_in_any_order_share_one_limit() {
    let limiter = limiter(800, 8);
    let quota = quota(Some((1, 4_000)), Some(1 << 30), None);
    let keys = ["global", "tenant:a", "model:m", "tenant:a/model:m"];
    let admitted: usize = thread::scope(|scope| {
        let deciders: Vec<_> = (0..8)
            .map(|number| {
                let (limiter, quota) = (&limiter, &quota);
                scope.spawn(move || {
                    let mut keys = keys;
                    keys.rotate_left(number % 4);
                    let named = keys.map(|key| (key, Arc::clone(quota)));
                    let scopes = limiter.scopes(named).unwrap();
                    let leases: Vec<_> = (0..1_000)
                        .map(|_| limiter.reserve(&scopes, tokens(7), 5))
                        .collect();
                    let granted = leases.iter().flatten();
                    granted
                        .filter(|lease| limiter.settle(lease, 7, 6).unwrap())
                        .count()
                })
            })
            .collect();
        deciders
            .into_iter()
            .map(|decider| decider.join().unwrap())
            .sum()
    });
    assert_eq!(admitted, 4_000);
    assert_eq!(limiter.holds(), 0);
}

/// PyrateLimiter#300: the sweeper raced a take and one slot was given twice.
#[test]
fn a_sweep_in_another_thread_gives_no_slot_twice() {
    let limiter = limiter(1_000, 1);
    let hot = quota(None, Some(500), None);
    let cold = quota(Some((1_000_000, 1)), None, None);
    let admitted: usize = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|number| {
                let (limiter, hot, cold) = (&limiter, &hot, &cold);
                scope.spawn(move || {
                    let scopes = one(limiter, "hot", hot);
                    let mut admitted = 0;
                    for step in 0..2_000 {
                        let now = 7 + step * 100;
                        let flood = one(limiter, &format!("{number}:{step}"), cold);
                        limiter.take(&flood, tokens(0), now).unwrap();
                        admitted += usize::from(limiter.take(&scopes, tokens(1), now).is_ok());
                    }
                    admitted
                })
            })
            .collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).sum()
    });
    assert_eq!(admitted, 500);
}

#[test]
fn a_key_with_an_open_lease_is_not_forgotten() {
    let limiter = limiter(100, 1);
    let quota = quota(None, Some(10), Some(1));
    let scopes = one(&limiter, "busy", &quota);
    let lease = limiter.reserve(&scopes, tokens(10), 0).unwrap();
    for step in 0..1_000_u64 {
        let other = one(&limiter, &format!("other{step}"), &quota);
        limiter
            .take(&other, tokens(1), 10 * SECOND + step * SECOND / 50)
            .unwrap();
    }
    let busy = limiter
        .reserve(&scopes, tokens(1), 30 * SECOND)
        .unwrap_err();
    assert!(
        matches!(busy, Denied::Refused(refusal) if refusal.dimension == Dimension::Concurrency)
    );
    assert!(limiter.settle(&lease, 10, 30 * SECOND).unwrap());
    assert!(limiter.reserve(&scopes, tokens(1), 30 * SECOND).is_ok());
}

proptest! {
    /// Whatever is reserved, settled and cancelled below its reservation: what was charged inside
    /// any window stays within the limit of every scope.
    #[test]
    fn charges_of_any_window_stay_within_the_limit(
        calls in prop::collection::vec((0_u64..200_000_000, 1_i64..60, 0_i64..60, any::<bool>()), 1..120),
    ) {
        let limiter = limiter(100, 4);
        let (wide, narrow) = (quota(None, Some(150), None), quota(None, Some(100), None));
        let scopes = limiter
            .scopes([("global", Arc::clone(&wide)), ("model:m", Arc::clone(&narrow))])
            .unwrap();
        let whole = one(&limiter, "global", &wide);
        let mut now = 0;
        let mut charged: Vec<(u64, i64, bool)> = Vec::new();
        for (step, cost, actual, both) in calls {
            now += step;
            let set = if both { &scopes } else { &whole };
            if let Ok(lease) = limiter.reserve(set, tokens(cost), now) {
                let actual = actual.min(cost);
                charged.push((now, actual, both));
                now += step / 2;
                limiter.settle(&lease, actual, now).unwrap();
            }
        }
        for (end, ..) in &charged {
            let seen = |both_only: bool| -> i64 {
                let inside = |at: &u64| at <= end && end - at < SECOND;
                charged
                    .iter()
                    .filter(|(at, _, both)| inside(at) && (*both || !both_only))
                    .map(|(_, tokens, _)| tokens)
                    .sum()
            };
            prop_assert!(seen(true) <= 100);
            prop_assert!(seen(false) <= 150);
        }
    }

    /// Whatever ends, in whatever way and under whichever quota: what is held is the sum over the
    /// open leases, and a lease is opened exactly if its memory fits beside the others'.
    #[test]
    fn memory_is_held_by_open_leases_alone(
        calls in prop::collection::vec((0_u64..30, 0_i64..70, 0_u8..5, 0_usize..4, 40_u64..120), 1..150),
    ) {
        const TTL: u64 = 100;
        let options = LimiterOptions { lease_ttl_ns: TTL, ..LimiterOptions::default() };
        let limiter = Limiter::new(options).unwrap();
        let mut now = SECOND;
        let mut open: Vec<(u64, i64, Lease)> = Vec::new();
        for (step, kibibytes, ending, which, limit) in calls {
            now += step;
            open.retain(|(expiry, ..)| *expiry > now);
            let quota = Arc::new(Quota::new(None, None, None, Some(limit)).unwrap());
            let scopes = one(&limiter, "global", &quota);
            let held: i64 = open.iter().map(|(_, kibibytes, _)| kibibytes).sum();
            let left = limit.saturating_sub(held.cast_unsigned());
            let meter = limiter.peek(&scopes, now).unwrap().bytes.unwrap();
            prop_assert_eq!((meter.remaining, meter.reset_ns), (left, 0));
            if ending < 3 && which < open.len() {
                let (_, _, lease) = open.swap_remove(which);
                let ended = match ending {
                    0 => limiter.settle(&lease, 0, now),
                    1 => limiter.cancel(&lease, 0, now),
                    _ => limiter.undo(&lease, now),
                };
                prop_assert!(ended.unwrap());
                continue;
            }
            let cost = Cost::new(1, 0, 0, kibibytes).unwrap();
            match limiter.reserve(&scopes, cost, now) {
                Ok(lease) => {
                    prop_assert!(kibibytes == 0 || kibibytes.cast_unsigned() <= left);
                    open.push((now + TTL, kibibytes, lease));
                }
                Err(Denied::Refused(refusal)) => {
                    prop_assert!(kibibytes > 0 && kibibytes.cast_unsigned() > left);
                    prop_assert_eq!(refusal.dimension, Dimension::Bytes);
                    prop_assert_eq!(refusal.permanent, kibibytes.cast_unsigned() > limit);
                    prop_assert_eq!(refusal.wait_ns, 0);
                }
                Err(denied) => prop_assert!(false, "{denied}"),
            }
        }
    }
}
