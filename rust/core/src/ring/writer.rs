use super::error::{Corruption, RingError};
use super::layout::{Header, RECORD_WORDS, RingRecord, WORD_BYTES, max_text_bytes, record_words};
use super::storage::Storage;

/// The writing half: lays records down behind the head and shows them all at once.
#[derive(Debug)]
pub(crate) struct RecordWriter<S> {
    storage: S,
    head: u64,
    committed: u64,
    tail: u64,
    sequence: u32,
}

impl<S: Storage> RecordWriter<S> {
    /// A writer on a ring that nobody has written to.
    pub(crate) fn new(storage: S) -> Result<Self, RingError> {
        if storage.head() != 0 {
            return Err(Corruption::Head.into());
        }
        Ok(Self {
            storage,
            head: 0,
            committed: 0,
            tail: 0,
            sequence: 0,
        })
    }

    /// The longest text that one record may carry.
    pub(crate) fn max_text_bytes(&self) -> usize {
        max_text_bytes(self.storage.capacity())
    }

    /// Lays one record down, unseen until the next commit; false if the ring has no room.
    pub(crate) fn push(&mut self, record: &RingRecord<'_>) -> Result<bool, RingError> {
        let header = self.header(record)?;
        let words = record_words(record.text.len());
        if !self.has_room(words as u64)? {
            return Ok(false);
        }
        for (word, position) in header.to_words().into_iter().zip(self.head..) {
            self.storage.store(position, word);
        }
        self.store_text(record.text.as_bytes());
        self.head += words as u64;
        self.sequence = header.sequence;
        Ok(true)
    }

    /// Shows what was pushed since the last commit; false if that is nothing.
    pub(crate) fn commit(&mut self) -> bool {
        let news = self.head != self.committed;
        if news {
            self.committed = self.head;
            self.storage.set_head(self.head);
        }
        news
    }

    fn header(&self, record: &RingRecord<'_>) -> Result<Header, RingError> {
        let (bytes, limit) = (record.text.len(), self.max_text_bytes());
        match u32::try_from(bytes) {
            Ok(text_bytes) if bytes <= limit => Ok(Header {
                sequence: self.sequence.wrapping_add(1),
                text_bytes,
                kind: record.kind as u16,
                choice: record.choice,
                token_count: record.token_count,
                stream: record.stream,
                time_ns: record.time_ns,
            }),
            _ => Err(RingError::TooLong { bytes, limit }),
        }
    }

    fn has_room(&mut self, words: u64) -> Result<bool, Corruption> {
        let capacity = self.storage.capacity() as u64;
        if self.head - self.tail + words <= capacity {
            return Ok(true);
        }
        let tail = self.storage.tail();
        if tail < self.tail || tail > self.committed {
            return Err(Corruption::Tail);
        }
        self.tail = tail;
        Ok(self.head - tail + words <= capacity)
    }

    fn store_text(&self, text: &[u8]) {
        let start = self.head + RECORD_WORDS as u64;
        for (chunk, position) in text.chunks(WORD_BYTES).zip(start..) {
            let mut word = [0; WORD_BYTES];
            word[..chunk.len()].copy_from_slice(chunk);
            self.storage.store(position, u64::from_ne_bytes(word));
        }
    }
}
