/// The time of one key: what its clock told, made monotone.
///
/// - A reading behind the last one passes no time.
/// - A reading further behind than the window means that the clock itself was set back (a restart,
///   a fail-over): the saved time counts as now, and time goes on from there.
/// - When such a clock is set forward again, the stretch that was already lived through passes no
///   time a second time, so a step back and forth refills nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeline {
    /// Monotone time of the key in nanoseconds.
    now: u64,
    /// The clock's reading that `now` stands for.
    seen: u64,
    /// The latest reading before the clock was set back; 0 if it never was.
    ceiling: u64,
}

impl Timeline {
    pub(crate) const fn starting(reading: u64) -> Self {
        Self {
            now: reading,
            seen: reading,
            ceiling: 0,
        }
    }

    /// Takes a reading and returns how many nanoseconds have passed for the key.
    pub(crate) fn observe(&mut self, reading: u64, window_ns: u64) -> u64 {
        if reading >= self.seen {
            let from = if self.seen < self.ceiling && self.ceiling <= reading {
                self.ceiling
            } else {
                self.seen
            };
            let elapsed = reading - from;
            self.seen = reading;
            self.now = self.now.saturating_add(elapsed);
            return elapsed;
        }
        if self.seen - reading > window_ns {
            self.ceiling = self.ceiling.max(self.seen);
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
        let crosses = self.seen < self.ceiling && self.ceiling <= reached;
        let ready = if crosses {
            self.ceiling.saturating_add(delay)
        } else {
            reached
        };
        ready.saturating_sub(reading)
    }
}

#[cfg(test)]
mod tests {
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
}
