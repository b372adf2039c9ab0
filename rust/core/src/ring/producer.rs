use std::os::fd::OwnedFd;

use super::error::RingError;
use super::layout::RingRecord;
use super::memory::Memory;
use super::signal::Notifier;
use super::writer::RecordWriter;

/// The engine's end: puts records in.
///
/// Owns its mapping and the wake-up descriptor and releases them on drop.
#[derive(Debug)]
pub struct Producer {
    writer: RecordWriter<Memory>,
    notifier: Notifier,
}

impl Producer {
    /// Opens the ring behind the two descriptors of a [`Consumer`](super::Consumer).
    ///
    /// # Errors
    /// [`RingError::Corrupt`] if the memory is no fresh ring, [`RingError::Io`].
    pub fn open(memory: OwnedFd, notify: OwnedFd) -> Result<Self, RingError> {
        let notifier = Notifier::new(notify)?;
        let mapping = Memory::open(&memory)?;
        drop(memory);
        Ok(Self {
            writer: RecordWriter::new(mapping)?,
            notifier,
        })
    }

    /// The longest text that one record may carry, in bytes.
    #[must_use]
    pub fn max_text_bytes(&self) -> usize {
        self.writer.max_text_bytes()
    }

    /// Lays one record down, unseen until the next commit; false if the ring has no room.
    ///
    /// # Errors
    /// [`RingError::TooLong`], and [`RingError::Corrupt`] if the peer broke the protocol.
    pub fn push(&mut self, record: &RingRecord<'_>) -> Result<bool, RingError> {
        self.writer.push(record)
    }

    /// Shows what was pushed since the last commit; false if that is nothing.
    pub fn commit(&mut self) -> bool {
        self.writer.commit()
    }

    /// Wakes the consumer.
    ///
    /// # Errors
    /// [`RingError::Io`], a broken pipe if the consumer is gone and the signal is a pipe.
    pub fn signal(&self) -> Result<(), RingError> {
        Ok(self.notifier.notify()?)
    }
}
