use super::error::{Corruption, RingError};
use super::layout::{Header, RECORD_WORDS, RingRecord, WORD_BYTES, max_text_bytes, record_words};
use super::storage::Storage;
use crate::record::Kind;

/// The reading half: takes records out in order, each checked and copied before it is shown.
#[derive(Debug)]
pub(crate) struct RecordReader<S> {
    storage: S,
    tail: u64,
    published: u64,
    sequence: u32,
    text: Vec<u8>,
    broken: Option<Corruption>,
}

impl<S: Storage> RecordReader<S> {
    pub(crate) const fn new(storage: S) -> Self {
        Self {
            storage,
            tail: 0,
            published: 0,
            sequence: 0,
            text: Vec::new(),
            broken: None,
        }
    }

    /// Shows every record that was committed when the call began; returns how many.
    ///
    /// After an error the records before the damage have been shown, and every further call
    /// fails alike.
    pub(crate) fn drain(&mut self, show: impl FnMut(RingRecord<'_>)) -> Result<usize, RingError> {
        if let Some(corruption) = self.broken {
            return Err(corruption.into());
        }
        let result = self.show_committed(show);
        self.publish();
        result.map_err(|corruption| {
            self.broken = Some(corruption);
            corruption.into()
        })
    }

    fn show_committed(
        &mut self,
        mut show: impl FnMut(RingRecord<'_>),
    ) -> Result<usize, Corruption> {
        let head = self.storage.head();
        let capacity = self.storage.capacity() as u64;
        if head
            .checked_sub(self.tail)
            .is_none_or(|used| used > capacity)
        {
            return Err(Corruption::Head);
        }
        let mut shown = 0;
        while self.tail != head {
            show(self.next(head)?);
            shown += 1;
            // A long batch gives room back while it is read.
            if self.tail - self.published > capacity / 8 {
                self.publish();
            }
        }
        Ok(shown)
    }

    fn next(&mut self, head: u64) -> Result<RingRecord<'_>, Corruption> {
        let available = usize::try_from(head - self.tail).map_err(|_| Corruption::Head)?;
        let header = self.header(available)?;
        let length = header.text_bytes as usize;
        let words = record_words(length);
        if length > max_text_bytes(self.storage.capacity()) || words > available {
            return Err(Corruption::Length);
        }
        if header.sequence != self.sequence.wrapping_add(1) {
            return Err(Corruption::Sequence);
        }
        let kind = u8::try_from(header.kind)
            .ok()
            .and_then(Kind::from_wire)
            .ok_or(Corruption::Kind)?;
        self.copy_text(length);
        let text = std::str::from_utf8(&self.text[..length]).map_err(|_| Corruption::Text)?;
        self.tail += words as u64;
        self.sequence = header.sequence;
        Ok(RingRecord {
            stream: header.stream,
            time_ns: header.time_ns,
            kind,
            choice: header.choice,
            token_count: header.token_count,
            text,
        })
    }

    fn header(&self, available: usize) -> Result<Header, Corruption> {
        if available < RECORD_WORDS {
            return Err(Corruption::Length);
        }
        let mut words = [0; RECORD_WORDS];
        for (word, position) in words.iter_mut().zip(self.tail..) {
            *word = self.storage.load(position);
        }
        Ok(Header::from_words(words))
    }

    fn copy_text(&mut self, length: usize) {
        let padded = length.next_multiple_of(WORD_BYTES);
        if self.text.len() < padded {
            self.text.resize(padded, 0);
        }
        let start = self.tail + RECORD_WORDS as u64;
        let chunks = self.text[..padded].chunks_exact_mut(WORD_BYTES);
        for (chunk, position) in chunks.zip(start..) {
            chunk.copy_from_slice(&self.storage.load(position).to_ne_bytes());
        }
    }

    fn publish(&mut self) {
        if self.published != self.tail {
            self.published = self.tail;
            self.storage.set_tail(self.tail);
        }
    }
}
