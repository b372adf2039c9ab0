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

#[cfg(test)]
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod tests {
    use std::os::fd::{BorrowedFd, RawFd};

    use super::*;
    use crate::ring::Consumer;

    fn copy(descriptor: RawFd) -> OwnedFd {
        // SAFETY: the consumer that owns it outlives the call.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        borrowed.try_clone_to_owned().unwrap()
    }

    fn ends() -> (Outbox, Consumer) {
        let consumer = Consumer::create(4096).unwrap();
        let outbox = Outbox::open(copy(consumer.memory_fd()), copy(consumer.notify_fd())).unwrap();
        (outbox, consumer)
    }

    fn record(stream: u64, kind: Kind, choice: u16, text: &str) -> RingRecord<'_> {
        RingRecord {
            stream,
            time_ns: 5,
            kind,
            choice,
            token_count: 1,
            text,
        }
    }

    type Shown = Vec<(u64, Kind, u16, u32, String)>;

    fn drained(consumer: &mut Consumer) -> Shown {
        let mut shown = Vec::new();
        let show = |got: RingRecord<'_>| {
            shown.push((
                got.stream,
                got.kind,
                got.choice,
                got.token_count,
                got.text.to_owned(),
            ));
        };
        consumer.drain(show).unwrap();
        shown
    }

    fn fill(outbox: &mut Outbox) {
        while outbox.pending() == 0 {
            outbox.write(&record(0, Kind::Token, 0, "")).unwrap();
        }
        outbox.discard(0);
    }

    #[test]
    fn waiting_token_text_merges_per_choice_and_keeps_the_last_words_last() {
        let (mut outbox, mut consumer) = ends();
        fill(&mut outbox);
        for (kind, choice, text) in [
            (Kind::Token, 0, "a"),
            (Kind::Token, 1, "x"),
            (Kind::Token, 0, "b"),
            (Kind::Finish, 0, "stop"),
            (Kind::Token, 1, "y"),
            (Kind::Finish, 1, "stop"),
            (Kind::Usage, 0, "{}"),
        ] {
            outbox.write(&record(7, kind, choice, text)).unwrap();
        }
        assert_eq!(outbox.flush().unwrap(), 5);
        drained(&mut consumer);
        assert_eq!(outbox.flush().unwrap(), 0);
        let expected = [
            (7, Kind::Token, 0, 2, "ab".to_owned()),
            (7, Kind::Token, 1, 2, "xy".to_owned()),
            (7, Kind::Finish, 0, 1, "stop".to_owned()),
            (7, Kind::Finish, 1, 1, "stop".to_owned()),
            (7, Kind::Usage, 0, 1, "{}".to_owned()),
        ];
        assert_eq!(drained(&mut consumer), expected);
    }

    #[test]
    fn token_text_of_any_length_is_split_between_characters() {
        let (mut outbox, mut consumer) = ends();
        let text = "é漢🦀".repeat(1000);
        outbox.write(&record(1, Kind::Token, 0, &text)).unwrap();
        let (mut shown, mut count) = (String::new(), 0);
        while shown.len() < text.len() {
            outbox.flush().unwrap();
            for (_, _, _, tokens, part) in drained(&mut consumer) {
                assert!(part.len() <= 1024);
                shown.push_str(&part);
                count += tokens;
            }
        }
        assert_eq!((shown, count), (text, 1));
    }

    #[test]
    fn other_records_beyond_the_limit_are_refused() {
        let (mut outbox, _consumer) = ends();
        let text = "x".repeat(1025);
        let error = outbox.write(&record(1, Kind::Error, 0, &text)).unwrap_err();
        assert!(matches!(
            error,
            RingError::TooLong {
                bytes: 1025,
                limit: 1024
            }
        ));
    }

    #[test]
    fn a_discarded_stream_leaves_the_others_in_order_and_growing() {
        let (mut outbox, mut consumer) = ends();
        fill(&mut outbox);
        for (stream, text) in [(1, "a"), (2, "x"), (3, "p"), (2, "y"), (1, "b")] {
            outbox.write(&record(stream, Kind::Token, 0, text)).unwrap();
        }
        outbox.discard(2);
        outbox.write(&record(3, Kind::Token, 0, "q")).unwrap();
        outbox.flush().unwrap();
        drained(&mut consumer);
        outbox.flush().unwrap();
        let texts: Vec<_> = drained(&mut consumer)
            .into_iter()
            .map(|shown| shown.4)
            .collect();
        assert_eq!(texts, ["ab", "pq"]);
    }

    #[test]
    fn a_used_ring_takes_no_second_producer() {
        let (mut outbox, consumer) = ends();
        outbox.write(&record(1, Kind::Token, 0, "a")).unwrap();
        outbox.flush().unwrap();
        let second = Outbox::open(copy(consumer.memory_fd()), copy(consumer.notify_fd()));
        assert!(matches!(second, Err(RingError::Corrupt(Corruption::Head))));
    }
}
