use super::quota::RequestRate;

/// The level of a token bucket, in requests × `period_ns`: exact, no fraction is ever lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    level: u128,
}

impl Bucket {
    pub(crate) const fn full(rate: &RequestRate) -> Self {
        Self {
            level: rate.capacity(),
        }
    }

    pub(crate) fn refill(&mut self, rate: &RequestRate, elapsed_ns: u64) {
        let refill = u128::from(elapsed_ns) * u128::from(rate.rate());
        self.level = self.level.saturating_add(refill).min(rate.capacity());
    }

    pub(crate) const fn is_full(&self, rate: &RequestRate) -> bool {
        // A bucket that gives nothing back has no state worth keeping.
        rate.rate() == 0 || self.level == rate.capacity()
    }

    /// Nanoseconds until `requests`, which must not exceed the burst, can be taken: 0 for now.
    pub(crate) fn wait_ns(&self, rate: &RequestRate, requests: u64) -> u64 {
        Self::time_to_gain(
            rate,
            Self::level_of(rate, requests).saturating_sub(self.level),
        )
    }

    pub(crate) fn take(&mut self, rate: &RequestRate, requests: u64) {
        self.level = self.level.saturating_sub(Self::level_of(rate, requests));
    }

    /// Gives back what was taken `elapsed_ns` ago, less what time has given back since.
    ///
    /// Had nothing been taken, the bucket might have been full since and that refill lost. Like
    /// this it never holds more than it would then, so the bound on any window stands.
    pub(crate) fn give_back(&mut self, rate: &RequestRate, requests: u64, elapsed_ns: u64) {
        let refill = u128::from(elapsed_ns) * u128::from(rate.rate());
        let level = Self::level_of(rate, requests).saturating_sub(refill);
        self.level = self.level.saturating_add(level).min(rate.capacity());
    }

    /// Whole requests that are left.
    pub(crate) fn remaining(&self, rate: &RequestRate) -> u64 {
        if rate.rate() == 0 {
            return 0;
        }
        u64::try_from(self.level / u128::from(rate.period_ns())).unwrap_or(u64::MAX)
    }

    /// Nanoseconds until the bucket is full; 0 for a bucket that gives nothing back.
    pub(crate) fn reset_ns(&self, rate: &RequestRate) -> u64 {
        Self::time_to_gain(rate, rate.capacity() - self.level)
    }

    /// The same requests under another rate, never more than fit; a full bucket stays full, so
    /// that it makes no difference whether an idle key was forgotten in between.
    pub(crate) fn adopt(&mut self, old: &RequestRate, new: &RequestRate) {
        if self.is_full(old) {
            *self = Self::full(new);
            return;
        }
        let (from, to) = (u128::from(old.period_ns()), u128::from(new.period_ns()));
        let level = self.level / from * to + self.level % from * to / from;
        self.level = level.min(new.capacity());
    }

    const fn level_of(rate: &RequestRate, requests: u64) -> u128 {
        requests as u128 * rate.period_ns() as u128
    }

    fn time_to_gain(rate: &RequestRate, level: u128) -> u64 {
        if level == 0 || rate.rate() == 0 {
            return 0;
        }
        u64::try_from(level.div_ceil(u128::from(rate.rate()))).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn drained(rate: &RequestRate) -> Bucket {
        let mut bucket = Bucket::full(rate);
        bucket.take(rate, rate.burst());
        bucket
    }

    #[test]
    fn odd_steps_refill_without_drift() {
        let rate = RequestRate::new(7, SECOND, 1_000_000).unwrap();
        let mut bucket = drained(&rate);
        for _ in 0..SECOND / 1_000 {
            bucket.refill(&rate, 333);
            bucket.refill(&rate, 667);
        }
        assert_eq!(bucket.level, u128::from(7 * SECOND));
    }

    #[test]
    fn the_wait_is_the_first_nanosecond_that_suffices() {
        let rate = RequestRate::new(3, SECOND, 10).unwrap();
        let bucket = drained(&rate);
        let wait = bucket.wait_ns(&rate, 1);
        assert_eq!(wait, 333_333_334);
        let mut early = bucket;
        early.refill(&rate, wait - 1);
        assert_eq!(early.wait_ns(&rate, 1), 1);
        let mut ready = bucket;
        ready.refill(&rate, wait);
        assert_eq!(ready.wait_ns(&rate, 1), 0);
    }

    #[test]
    fn a_rate_above_the_clocks_resolution_still_takes_time() {
        let rate = RequestRate::new(SECOND + 1, SECOND, 1).unwrap();
        assert_eq!(drained(&rate).wait_ns(&rate, 1), 1);
    }

    #[test]
    fn the_longest_idle_time_at_the_highest_rate_fills_and_does_not_overflow() {
        let rate = RequestRate::new(u64::MAX, 1 << 56, 1 << 40).unwrap();
        let mut bucket = drained(&rate);
        bucket.refill(&rate, u64::MAX);
        bucket.refill(&rate, u64::MAX);
        assert!(bucket.is_full(&rate));
    }

    #[test]
    fn what_is_given_back_late_never_exceeds_what_was_there() {
        let rate = RequestRate::new(2, SECOND, 3).unwrap();
        let mut bucket = Bucket::full(&rate);
        bucket.take(&rate, 2);
        let mut at_once = bucket;
        at_once.give_back(&rate, 2, 0);
        assert!(at_once.is_full(&rate));
        bucket.refill(&rate, SECOND / 4);
        let mut soon = bucket;
        soon.give_back(&rate, 2, SECOND / 4);
        assert!(soon.is_full(&rate));
        bucket.refill(&rate, SECOND);
        bucket.take(&rate, 3);
        bucket.give_back(&rate, 2, SECOND / 4 + SECOND);
        assert_eq!(bucket.level, 0);
    }

    #[test]
    fn a_new_rate_keeps_the_requests() {
        let second = RequestRate::new(1, SECOND, 10).unwrap();
        let minute = RequestRate::new(1, 60 * SECOND, 8).unwrap();
        let mut bucket = Bucket::full(&second);
        bucket.take(&second, 3);
        bucket.adopt(&second, &minute);
        assert_eq!(bucket.remaining(&minute), 7);
        let mut full = Bucket::full(&second);
        full.adopt(&second, &minute);
        assert_eq!(full.remaining(&minute), 8);
    }
}
