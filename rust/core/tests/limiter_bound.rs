//! The published bound with real threads: what 64 clients are admitted and charged in any window.

#![expect(clippy::unwrap_used, reason = "a test file")]

use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use millstream_core::clock::{Clock, FakeClock};
use millstream_core::limiter::{
    Cost, Lease, Limiter, LimiterOptions, Quota, ScopeSet, TokenWindow,
};

const CLIENTS: u64 = 64;
const PHASES: usize = 150;
const CALLS: usize = 6;
const MILLISECOND: u64 = 1_000_000;
const START: u64 = 1_000_000_000_000;
const WINDOW: u64 = 100 * MILLISECOND;
const LIMIT: i64 = 3_000;

/// Numbers that are the same in every run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What was charged and over-run in one phase, and whether anything was admitted in it.
#[derive(Clone, Copy, Default)]
struct Phase {
    /// How far the clock has moved ahead until then.
    moved: u64,
    charged: i64,
    overrun: i64,
    admitted: bool,
}

/// What every client tells about its calls.
#[derive(Default)]
struct Ledger {
    phases: Vec<Phase>,
    refused: usize,
    expired: usize,
}

struct Client<'a> {
    limiter: &'a Limiter,
    scopes: ScopeSet,
    ledger: &'a Mutex<Ledger>,
    draws: Draws,
    /// The open lease with the phase of its admission and its tokens.
    open: Option<(Lease, usize, i64)>,
}

impl Client<'_> {
    fn call(&mut self, phase: usize, now: u64) {
        match self.open.take() {
            None => self.reserve(phase, now),
            // One in twenty forgets about its lease.
            Some(_) if self.draws.below(20) == 0 => {}
            Some((lease, since, tokens)) => self.end(&lease, since, tokens, phase, now),
        }
    }

    fn reserve(&mut self, phase: usize, now: u64) {
        let tokens = 1 + self.draws.below(400).cast_signed();
        let prompt = self.draws.below(1 + tokens.cast_unsigned()).cast_signed();
        let cost = Cost::new(1, tokens, prompt, 1).unwrap();
        let found = self.limiter.reserve(&self.scopes, cost, now);
        let mut ledger = self.ledger.lock().unwrap();
        if let Ok(lease) = found {
            ledger.phases[phase].charged += tokens;
            ledger.phases[phase].admitted = true;
            self.open = Some((lease, phase, tokens));
        } else {
            ledger.refused += 1;
        }
    }

    fn end(&mut self, lease: &Lease, since: usize, tokens: i64, phase: usize, now: u64) {
        let actual = self.draws.below(500).cast_signed();
        let prompt = lease.cost().prompt().cast_signed();
        let (ended, used) = match self.draws.below(4) {
            0 => (self.limiter.undo(lease, now), 0),
            1 => (self.limiter.cancel(lease, actual, now), prompt + actual),
            _ => (self.limiter.settle(lease, actual, now), actual),
        };
        let mut ledger = self.ledger.lock().unwrap();
        if !ended.unwrap() {
            ledger.expired += 1;
        } else if used > tokens {
            ledger.phases[phase].charged += used - tokens;
            ledger.phases[phase].overrun += used - tokens;
        } else {
            ledger.phases[since].charged -= tokens - used;
        }
    }
}

/// Sets the clock, mostly a little ahead, and returns how far it went ahead.
fn set(clock: &FakeClock, draws: &mut Draws) -> u64 {
    let before = clock.now_ns();
    match draws.below(12) {
        0 => clock.set(before - draws.below(40) * MILLISECOND),
        1 => clock.set(before - draws.below(4_000) * MILLISECOND),
        2 => clock.set(before + draws.below(4_000) * MILLISECOND),
        _ => clock.set(before + draws.below(12) * MILLISECOND),
    }
    clock.now_ns().saturating_sub(before)
}

/// Nobody knows the order of the calls of one phase, so the over-runs of the phase of the last
/// admission count as settled after it.
fn check(phases: &[Phase]) {
    for (end, last) in phases.iter().enumerate() {
        let window = phases[..=end]
            .iter()
            .filter(|phase| last.moved - phase.moved < WINDOW);
        let charged: i64 = window.map(|phase| phase.charged).sum();
        let admission = phases[..=end].iter().rposition(|phase| phase.admitted);
        let since = admission.unwrap_or(0);
        let overrun: i64 = phases[since..=end].iter().map(|phase| phase.overrun).sum();
        assert!(charged <= LIMIT + overrun, "phase {end}: {charged}");
    }
}

#[test]
fn no_window_is_charged_more_than_the_limit_and_the_last_over_runs() {
    let limiter = Limiter::new(LimiterOptions {
        max_keys: 100,
        shards: 4,
        lease_ttl_ns: 60 * MILLISECOND,
    })
    .unwrap();
    let window = TokenWindow::new(LIMIT.cast_unsigned(), WINDOW, 16).unwrap();
    let quota = Arc::new(Quota::new(None, Some(window), None, Some(50)).unwrap());
    let clock = FakeClock::at(START);
    let ledger = Mutex::new(Ledger {
        phases: vec![Phase::default(); PHASES],
        ..Ledger::default()
    });
    let (begin, end) = (Barrier::new(65), Barrier::new(65));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut client = Client {
                limiter: &limiter,
                scopes: limiter.scopes([("global", Arc::clone(&quota))]).unwrap(),
                ledger: &ledger,
                draws: Draws(number + 1),
                open: None,
            };
            let (clock, begin, end) = (&clock, &begin, &end);
            scope.spawn(move || {
                for phase in 0..PHASES {
                    begin.wait();
                    // Some are busy and half stay away, now and then until their lease expires.
                    let calls = if client.draws.below(8) == 0 { CALLS } else { 1 };
                    let calls = calls * usize::from(client.draws.below(2) == 0);
                    (0..calls).for_each(|_| client.call(phase, clock.now_ns()));
                    end.wait();
                }
            });
        }
        let (mut draws, mut moved) = (Draws(77), 0);
        for phase in 0..PHASES {
            moved += set(&clock, &mut draws);
            ledger.lock().unwrap().phases[phase].moved = moved;
            begin.wait();
            end.wait();
        }
    });
    let ledger = ledger.into_inner().unwrap();
    check(&ledger.phases);
    let overrun: i64 = ledger.phases.iter().map(|phase| phase.overrun).sum();
    let charged: i64 = ledger.phases.iter().map(|phase| phase.charged).sum();
    assert!(ledger.refused > 1_000, "{} refused", ledger.refused);
    assert!(ledger.expired > 10, "{} expired", ledger.expired);
    assert!(overrun > LIMIT, "{overrun} over-run");
    assert!(charged > 5 * LIMIT, "{charged} charged");
}
