use std::os::fd::OwnedFd;

use super::error::{Corruption, RingError};
use super::layout::RingRecord;
use super::pending::Pending;
use super::producer::Producer;
use crate::record::Kind;

/// A producer that never blocks and never loses a record: what finds no room waits here, token
/// text merged per stream and choice, until a later flush.
#[derive(Debug)]
pub struct Outbox {
    producer: Producer,
    pending: Pending,
    broken: Option<Corruption>,
    unsignalled: bool,
}

impl Outbox {
    /// Opens the ring behind the two descriptors of a [`Consumer`](super::Consumer).
    ///
    /// # Errors
    /// As [`Producer::open`].
    pub fn open(memory: OwnedFd, notify: OwnedFd) -> Result<Self, RingError> {
        Ok(Self {
            producer: Producer::open(memory, notify)?,
            pending: Pending::default(),
            broken: None,
            unsignalled: false,
        })
    }

    /// How many records wait for room.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Takes one record; it becomes visible at a flush. Token text of any length is split.
    ///
    /// On a ring that the peer has corrupted the record is dropped and the next flush says so:
    /// the engine's step writes to several rings and must not stop for one.
    ///
    /// # Errors
    /// [`RingError::TooLong`] for any other kind of record.
    pub fn write(&mut self, record: &RingRecord<'_>) -> Result<(), RingError> {
        let limit = self.producer.max_text_bytes();
        let mut part = *record;
        while part.kind == Kind::Token && part.text.len() > limit {
            let (now, rest) = part.text.split_at(part.text.floor_char_boundary(limit));
            self.write_part(&RingRecord { text: now, ..part })?;
            part.text = rest;
            part.token_count = 0;
        }
        self.write_part(&part)
    }

    /// Lays down what waits as far as there is room, shows it and wakes the consumer once if
    /// anything is new; returns how many records still wait.
    ///
    /// # Errors
    /// [`RingError::Corrupt`] for good once the peer has broken the protocol, [`RingError::Io`].
    pub fn flush(&mut self) -> Result<usize, RingError> {
        if let Some(corruption) = self.broken {
            return Err(corruption.into());
        }
        self.push_pending()?;
        self.unsignalled |= self.producer.commit();
        if self.unsignalled {
            self.producer.signal()?;
            self.unsignalled = false;
        }
        Ok(self.pending.len())
    }

    /// Drops what waits of one stream.
    pub fn discard(&mut self, stream: u64) {
        self.pending.discard(stream);
    }

    fn write_part(&mut self, record: &RingRecord<'_>) -> Result<(), RingError> {
        let limit = self.producer.max_text_bytes();
        let bytes = record.text.len();
        if bytes > limit {
            return Err(RingError::TooLong { bytes, limit });
        }
        if self.broken.is_some() {
            return Ok(());
        }
        if !self.pending.is_empty() {
            self.pending.add(record, limit);
            return Ok(());
        }
        match self.producer.push(record) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.pending.add(record, limit);
                Ok(())
            }
            Err(RingError::Corrupt(corruption)) => {
                self.broken = Some(corruption);
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    fn push_pending(&mut self) -> Result<(), RingError> {
        while let Some(record) = self.pending.front() {
            match self.producer.push(&record.record()) {
                Ok(true) => self.pending.pop(),
                Ok(false) => break,
                Err(error) => return Err(self.break_down(error)),
            }
        }
        Ok(())
    }

    /// Nothing can reach a consumer behind a corrupted ring any more: what waits is let go.
    fn break_down(&mut self, error: RingError) -> RingError {
        if let RingError::Corrupt(corruption) = error {
            self.broken = Some(corruption);
            self.pending = Pending::default();
        }
        error
    }
}
