use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::error::RingError;
use super::layout::RingRecord;
use super::memory::Memory;
use super::reader::RecordReader;
use super::signal::Waiter;

/// The worker's end: makes the ring and takes records out.
///
/// Owns the mapping and its descriptors and releases them on drop.
#[derive(Debug)]
pub struct Consumer {
    reader: RecordReader<Memory>,
    memory: OwnedFd,
    waiter: Waiter,
}

impl Consumer {
    /// Makes a ring of `capacity` bytes, a power of two from 4 KiB to 1 GiB.
    ///
    /// # Errors
    /// [`RingError::Capacity`], or [`RingError::Io`] when the system gives no memory.
    pub fn create(capacity: usize) -> Result<Self, RingError> {
        let (memory, descriptor) = Memory::create(capacity)?;
        Ok(Self {
            reader: RecordReader::new(memory),
            memory: descriptor,
            waiter: Waiter::create()?,
        })
    }

    /// The memory's descriptor, to hand to the producer.
    #[must_use]
    pub fn memory_fd(&self) -> RawFd {
        self.memory.as_raw_fd()
    }

    /// The descriptor that becomes readable when records are due.
    #[must_use]
    pub fn wait_fd(&self) -> RawFd {
        self.waiter.wait_fd()
    }

    /// The descriptor to hand to the producer; the same as [`Self::wait_fd`] where eventfd exists.
    #[must_use]
    pub fn notify_fd(&self) -> RawFd {
        self.waiter.notify_fd()
    }

    /// Clears the wake-up, then shows every committed record in order; returns how many.
    ///
    /// # Errors
    /// [`RingError::Corrupt`] for good once the peer has broken the protocol; records before the
    /// damage have been shown.
    pub fn drain(&mut self, show: impl FnMut(RingRecord<'_>)) -> Result<usize, RingError> {
        // First the signal: what is committed after this is signalled again.
        self.waiter.clear()?;
        self.reader.drain(show)
    }
}
