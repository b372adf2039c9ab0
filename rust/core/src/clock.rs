//! Time as nanoseconds of a monotonic clock, behind a trait so that tests drive it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A source of monotonic nanoseconds; where zero lies is the clock's own affair.
pub trait Clock {
    /// Nanoseconds since the clock's zero.
    fn now_ns(&self) -> u64;
}

/// The machine's monotonic clock, counted from the moment the value was made.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    origin: Instant,
}

impl MonotonicClock {
    /// A clock that reads zero now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A clock that moves only when told to, also backwards.
#[derive(Debug, Default)]
pub struct FakeClock {
    now_ns: AtomicU64,
}

impl FakeClock {
    /// A clock that reads `now_ns`.
    #[must_use]
    pub const fn at(now_ns: u64) -> Self {
        Self {
            now_ns: AtomicU64::new(now_ns),
        }
    }

    /// Moves the clock forward by `by_ns` and returns the new reading.
    pub fn advance(&self, by_ns: u64) -> u64 {
        self.now_ns
            .fetch_add(by_ns, Ordering::Relaxed)
            .wrapping_add(by_ns)
    }

    /// Sets the reading, which may lie in the past.
    pub fn set(&self, now_ns: u64) {
        self.now_ns.store(now_ns, Ordering::Relaxed);
    }
}

impl Clock for FakeClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_clock_never_steps_back() {
        let clock = MonotonicClock::new();
        let readings: Vec<u64> = (0..1000).map(|_| clock.now_ns()).collect();
        assert!(readings.is_sorted());
    }

    #[test]
    fn fake_clock_moves_only_when_told() {
        let clock = FakeClock::at(5);
        assert_eq!(clock.now_ns(), 5);
        assert_eq!(clock.advance(7), 12);
        clock.set(3);
        assert_eq!(clock.now_ns(), 3);
    }
}
