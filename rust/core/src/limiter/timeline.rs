/// The time of one key: what its clock told, made monotone.
///
/// - A reading behind the last one passes no time.
/// - A reading further behind than the window means that the clock itself was set back (a restart,
///   a fail-over): the saved time counts as now, and time goes on from there.
/// - When such a clock is set forth to where it would have been, only what was not lived through
///   in the meantime passes: a step back and forth refills nothing, at once or later.
///
/// So for a clock that runs true but for such steps, no more time passes than really does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    /// Monotone time of the key in nanoseconds: what a clock would tell that was never set back.
    now: u64,
    /// The clock's reading that `now` stands for; the same, unless the clock was set back.
    seen: u64,
}

impl Timeline {
    pub(crate) const fn starting(reading: u64) -> Self {
        Self {
            now: reading,
            seen: reading,
        }
    }

    /// Takes a reading and returns how many nanoseconds have passed for the key.
    pub(crate) fn observe(&mut self, reading: u64, window_ns: u64) -> u64 {
        if reading >= self.seen {
            let returns = self.seen < self.now && self.now <= reading;
            let elapsed = reading - if returns { self.now } else { self.seen };
            self.seen = reading;
            self.now = self.now.saturating_add(elapsed);
            return elapsed;
        }
        if self.seen - reading > window_ns {
            self.seen = reading;
        }
        0
    }

    pub(crate) const fn now(&self) -> u64 {
        self.now
    }

    /// Nanoseconds of the clock from `reading`, which was observed, until `delay` has passed here.
    pub(crate) const fn wait(&self, reading: u64, delay: u64) -> u64 {
        let reached = self.seen.saturating_add(delay);
        let returns = self.seen < self.now && self.now <= reached;
        let ready = if returns {
            self.now.saturating_add(delay)
        } else {
            reached
        };
        ready.saturating_sub(reading)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: u64 = 1_000;

    #[test]
    fn small_steps_back_pass_no_time() {
        let mut time = Timeline::starting(10_000);
        assert_eq!(time.observe(9_000, WINDOW), 0);
        assert_eq!(time.observe(10_000, WINDOW), 0);
        assert_eq!(time.observe(10_005, WINDOW), 5);
    }

    #[test]
    fn a_clock_set_back_counts_as_now() {
        let mut time = Timeline::starting(10_000);
        assert_eq!(time.observe(8_999, WINDOW), 0);
        assert_eq!(time.observe(9_100, WINDOW), 101);
        assert_eq!(time.now(), 10_101);
    }

    #[test]
    fn a_clock_set_forth_again_gives_nothing_twice() {
        let mut time = Timeline::starting(10_000);
        time.observe(1_000, WINDOW);
        assert_eq!(time.observe(10_003, WINDOW), 3);
        assert_eq!(time.observe(10_010, WINDOW), 7);
    }

    #[test]
    fn what_was_lived_through_behind_does_not_pass_again_on_return() {
        let mut time = Timeline::starting(10_000);
        time.observe(1_000, WINDOW);
        assert_eq!(time.observe(1_600, WINDOW), 600);
        assert_eq!(time.observe(10_650, WINDOW), 50);
        assert_eq!(time.observe(10_651, WINDOW), 1);
    }

    #[test]
    fn waiting_out_the_wait_passes_the_delay() {
        for (first, second) in [(10_000, 10_500), (10_000, 9_500), (10_000, 2_000)] {
            for delay in [1, 700, 7_999, 8_000, 20_000] {
                let mut time = Timeline::starting(first);
                time.observe(second, WINDOW);
                let wait = time.wait(second, delay);
                let mut early = time;
                assert!(early.observe(second + wait - 1, WINDOW) < delay);
                assert_eq!(time.observe(second + wait, WINDOW), delay);
            }
        }
    }

    proptest! {
        /// The clock is shown late by nothing, by a little or by ever more, and is then set right.
        #[test]
        fn no_more_time_passes_than_really_does(
            steps in prop::collection::vec((0_u64..3_000, 0_u64..4), 1..60),
        ) {
            let mut truth = 1_000_000;
            let mut time = Timeline::starting(truth);
            let mut late = 0;
            for (step, setting) in steps {
                truth += step;
                late = match setting {
                    0 => 0,
                    1 => late,
                    2 => late + WINDOW / 2,
                    _ => late + 10 * WINDOW,
                };
                time.observe(truth - late, WINDOW);
                prop_assert!(time.now() <= truth);
            }
            time.observe(truth + 5 * WINDOW, WINDOW);
            prop_assert!(time.now() <= truth + 5 * WINDOW);
        }
    }
}
