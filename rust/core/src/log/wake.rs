use super::sync::Mutex;

/// Woken waiters on their way to another thread that sleeps on a descriptor.
///
/// Many pushes make one signal: `push` says when the descriptor has to be written, and the other
/// side reads the descriptor **before** it drains. A push that finds the signal still pending is
/// then always seen by the drain that follows that signal.
#[derive(Debug)]
pub struct WakeQueue<W> {
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W> {
    woken: Vec<W>,
    signalled: bool,
}

impl<W> Default for WakeQueue<W> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                woken: Vec::new(),
                signalled: false,
            }),
        }
    }
}

impl<W> WakeQueue<W> {
    /// Queues a waiter; true if the descriptor must be written now.
    #[must_use = "without the signal the waiter sleeps on"]
    pub fn push(&self, waiter: W) -> bool {
        let mut state = self.state.lock();
        state.woken.push(waiter);
        !std::mem::replace(&mut state.signalled, true)
    }

    /// Takes everything queued; call it after the descriptor was read.
    #[must_use]
    pub fn drain(&self) -> Vec<W> {
        let mut state = self.state.lock();
        state.signalled = false;
        std::mem::take(&mut state.woken)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn many_pushes_signal_once() {
        let queue = WakeQueue::default();
        let signals: Vec<bool> = (0..3).map(|waiter| queue.push(waiter)).collect();
        assert_eq!(signals, [true, false, false]);
        assert_eq!(queue.drain(), [0, 1, 2]);
        assert!(queue.push(3));
    }
}
