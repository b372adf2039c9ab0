//! Decisions per second of the limiter alone, at 1, 2 and 4 threads: `cargo run --release --example
//! limiter_threads`. One line per number of threads: all on one key, each on a key of its own.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "an example")]

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use millstream_core::clock::{Clock, MonotonicClock};
use millstream_core::limiter::{Cost, Limiter, LimiterOptions, Quota, RequestRate};

const DECISIONS: u32 = 2_000_000;
const ROUNDS: usize = 7;
const NEVER_REACHED: u64 = 1 << 40;

/// Decisions per second of all threads together, from the first start to the last end.
fn decide(threads: u32, shared: bool) -> f64 {
    let limiter = Limiter::new(LimiterOptions::default()).unwrap();
    let rate = RequestRate::new(NEVER_REACHED, 3_600_000_000_000, NEVER_REACHED).unwrap();
    let quota = Arc::new(Quota::new(Some(rate), None, None, None).unwrap());
    let (clock, start) = (MonotonicClock::new(), Barrier::new(threads as usize));
    let take_many = |number: u32| {
        let key = format!("tenant:{}", if shared { 0 } else { number });
        let scopes = limiter.scopes([(key, Arc::clone(&quota))]).unwrap();
        let cost = Cost::new(1, 0, 0, 0).unwrap();
        start.wait();
        let began = Instant::now();
        for _ in 0..DECISIONS {
            limiter.take(&scopes, cost, clock.now_ns()).unwrap();
        }
        (began, Instant::now())
    };
    let spans: Vec<_> = thread::scope(|scope| {
        let take_many = &take_many;
        let running: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || take_many(number)))
            .collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let began = spans.iter().map(|span| span.0).min().unwrap();
    let ended = spans.iter().map(|span| span.1).max().unwrap();
    f64::from(threads * DECISIONS) / (ended - began).as_secs_f64()
}

fn main() {
    for threads in [1, 2, 4] {
        let [shared, own] = [true, false].map(|shared| {
            let mut rounds: Vec<_> = (0..ROUNDS).map(|_| decide(threads, shared)).collect();
            rounds.sort_by(f64::total_cmp);
            rounds[ROUNDS / 2]
        });
        println!("{threads} {shared:.0} {own:.0}");
    }
}
