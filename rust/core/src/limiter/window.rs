use super::quota::TokenWindow;

/// Tokens of the last window, in a ring of one slot more than the window has.
///
/// The oldest slot is only partly inside the window and is counted whole, so no window of the
/// full length ever sees more than the limit.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Number of the current slot: time / `slot_ns`.
    index: u64,
    /// Sum over the ring.
    sum: u64,
    slots: Box<[u64]>,
}

impl Window {
    pub(crate) fn empty(window: &TokenWindow, now: u64) -> Self {
        let slots = vec![0; window.ring()].into_boxed_slice();
        Self {
            index: now / window.slot_ns(),
            sum: 0,
            slots,
        }
    }

    /// Lets an empty ring begin at `now`, which may lie behind.
    pub(crate) const fn restart(&mut self, window: &TokenWindow, now: u64) {
        self.index = now / window.slot_ns();
    }

    /// Drops the slots that have left the ring at `now`, which never decreases.
    pub(crate) fn roll(&mut self, window: &TokenWindow, now: u64) {
        if now < self.start_of(window, self.index.saturating_add(1)) {
            return;
        }
        let index = now / window.slot_ns();
        let passed = index - self.index;
        if self.sum == 0 || passed >= self.slots.len() as u64 {
            self.slots.fill(0);
            self.sum = 0;
        } else {
            for slot in self.index + 1..=index {
                let position = self.position(slot);
                self.sum -= std::mem::take(&mut self.slots[position]);
            }
        }
        self.index = index;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.sum == 0
    }

    /// Number of the current slot, by which a later credit finds it.
    pub(crate) const fn index(&self) -> u64 {
        self.index
    }

    /// Tokens that still fit.
    pub(crate) const fn remaining(&self, window: &TokenWindow) -> u64 {
        window.limit().saturating_sub(self.sum)
    }

    /// Adds to the current slot; a debit after the fact may exceed the limit.
    pub(crate) fn charge(&mut self, tokens: u64) {
        let tokens = tokens.min(u64::MAX - self.sum);
        let position = self.position(self.index);
        self.slots[position] += tokens;
        self.sum += tokens;
    }

    /// Gives back to the slot of that number, or nothing if it has left the ring.
    pub(crate) fn credit(&mut self, slot: u64, tokens: u64) {
        if slot > self.index || self.index - slot >= self.slots.len() as u64 {
            return;
        }
        let position = self.position(slot);
        let tokens = tokens.min(self.slots[position]);
        self.slots[position] -= tokens;
        self.sum -= tokens;
    }

    /// Nanoseconds until `tokens`, which must not exceed the limit, fit: 0 for now.
    pub(crate) fn wait_ns(&self, window: &TokenWindow, tokens: u64, now: u64) -> u64 {
        if self.sum.saturating_add(tokens) <= window.limit() {
            return 0;
        }
        let mut sum = self.sum;
        for slot in self.oldest()..=self.index {
            sum -= self.slots[self.position(slot)];
            if sum.saturating_add(tokens) <= window.limit() {
                return self.leaves_at(window, slot) - now;
            }
        }
        0
    }

    /// Nanoseconds until the ring is empty.
    pub(crate) fn reset_ns(&self, window: &TokenWindow, now: u64) -> u64 {
        (self.oldest()..=self.index)
            .rev()
            .find(|&slot| self.slots[self.position(slot)] > 0)
            .map_or(0, |slot| self.leaves_at(window, slot) - now)
    }

    /// A ring for another window that counts everything as used just now.
    pub(crate) fn adopt(&self, window: &TokenWindow, now: u64) -> Self {
        let mut adopted = Self::empty(window, now);
        adopted.charge(self.sum);
        adopted
    }

    const fn oldest(&self) -> u64 {
        self.index.saturating_sub(self.slots.len() as u64 - 1)
    }

    const fn position(&self, slot: u64) -> usize {
        (slot % self.slots.len() as u64) as usize
    }

    const fn start_of(&self, window: &TokenWindow, slot: u64) -> u64 {
        slot.saturating_mul(window.slot_ns())
    }

    const fn leaves_at(&self, window: &TokenWindow, slot: u64) -> u64 {
        self.start_of(window, slot.saturating_add(self.slots.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(limit: u64, window_ns: u64, slots: usize) -> TokenWindow {
        TokenWindow::new(limit, window_ns, slots).unwrap()
    }

    #[test]
    fn the_oldest_partial_slot_is_counted_whole() {
        let quota = window(10, 160, 16);
        let mut ring = Window::empty(&quota, 9);
        ring.charge(10);
        ring.roll(&quota, 169);
        assert_eq!(ring.wait_ns(&quota, 1, 169), 1);
        ring.roll(&quota, 170);
        assert_eq!(ring.wait_ns(&quota, 10, 170), 0);
    }

    #[test]
    fn credit_goes_to_the_slot_of_the_reservation() {
        let quota = window(100, 160, 16);
        let mut ring = Window::empty(&quota, 0);
        ring.charge(60);
        ring.roll(&quota, 80);
        ring.charge(40);
        ring.credit(0, 50);
        assert_eq!(ring.remaining(&quota), 50);
        ring.roll(&quota, 170);
        assert_eq!(ring.remaining(&quota), 60);
    }

    #[test]
    fn credit_for_a_slot_that_left_the_ring_gives_nothing() {
        let quota = window(100, 160, 16);
        let mut ring = Window::empty(&quota, 0);
        ring.charge(60);
        ring.roll(&quota, 170);
        ring.charge(40);
        ring.credit(0, 60);
        assert_eq!(ring.remaining(&quota), 60);
    }

    #[test]
    fn debt_delays_and_then_leaves_with_its_slot() {
        let quota = window(100, 160, 16);
        let mut ring = Window::empty(&quota, 0);
        ring.charge(1000);
        assert_eq!(ring.remaining(&quota), 0);
        assert_eq!(ring.wait_ns(&quota, 1, 0), 170);
        assert_eq!(ring.reset_ns(&quota, 0), 170);
        ring.charge(u64::MAX);
        ring.roll(&quota, 170);
        assert!(ring.is_empty());
    }

    proptest! {
        /// Greedy takers never get more than the limit into any stretch of the window's length.
        #[test]
        fn no_window_sees_more_than_the_limit(
            limit in 1_u64..50,
            window_ns in 1_u64..300,
            slots in 1_usize..20,
            takes in prop::collection::vec((0_u64..40, 1_u64..30), 1..200),
        ) {
            let quota = window(limit, window_ns, slots);
            let mut now = 12_345;
            let mut ring = Window::empty(&quota, now);
            let mut admitted: Vec<(u64, u64)> = Vec::new();
            for (step, tokens) in takes {
                now += step;
                ring.roll(&quota, now);
                if tokens > limit {
                    continue;
                }
                let wait = ring.wait_ns(&quota, tokens, now);
                if wait == 0 {
                    ring.charge(tokens);
                    admitted.push((now, tokens));
                } else {
                    let mut early = ring.clone();
                    early.roll(&quota, now + wait - 1);
                    prop_assert_eq!(early.wait_ns(&quota, tokens, now + wait - 1), 1);
                    let mut ready = ring.clone();
                    ready.roll(&quota, now + wait);
                    prop_assert_eq!(ready.wait_ns(&quota, tokens, now + wait), 0);
                }
            }
            for (end, _) in &admitted {
                let seen: u64 = admitted
                    .iter()
                    .filter(|(at, _)| at <= end && end - at < window_ns)
                    .map(|(_, tokens)| tokens)
                    .sum();
                prop_assert!(seen <= limit);
            }
        }
    }
}
