use std::io;
use std::os::fd::RawFd;

use super::wake::WakeQueue;
use crate::ring::{Notifier, Waiter};

/// Wakes the waiters of one event loop from any thread: a queue and the descriptor that it rings.
#[derive(Debug)]
pub struct Doorbell<W> {
    queue: WakeQueue<W>,
    waiter: Waiter,
    notifier: Notifier,
}

impl<W> Doorbell<W> {
    /// A doorbell with nobody in its queue.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub fn new() -> io::Result<Self> {
        let waiter = Waiter::create()?;
        Ok(Self {
            queue: WakeQueue::default(),
            notifier: waiter.notifier()?,
            waiter,
        })
    }

    /// The descriptor that becomes readable when waiters are queued.
    #[must_use]
    pub fn wait_fd(&self) -> RawFd {
        self.waiter.wait_fd()
    }

    /// Queues a woken waiter and rings if nobody has since the last `answer`. Never blocks.
    ///
    /// # Errors
    /// When the descriptor cannot be written.
    pub fn ring(&self, waiter: W) -> io::Result<()> {
        if self.queue.push(waiter) {
            self.notifier.notify()?;
        }
        Ok(())
    }

    /// Silences the descriptor and takes the queue.
    ///
    /// # Errors
    /// When the descriptor cannot be read; the queue is kept then.
    pub fn answer(&self) -> io::Result<Vec<W>> {
        // First the descriptor: whoever is queued after this rings again.
        self.waiter.clear()?;
        Ok(self.queue.drain())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn answers_everybody_queued_and_rings_again() {
        let doorbell = Doorbell::new().unwrap();
        for waiter in 0..3 {
            doorbell.ring(waiter).unwrap();
        }
        assert_eq!(doorbell.answer().unwrap(), [0, 1, 2]);
        doorbell.ring(3).unwrap();
        assert_eq!(doorbell.answer().unwrap(), [3]);
        assert!(doorbell.answer().unwrap().is_empty());
    }
}
