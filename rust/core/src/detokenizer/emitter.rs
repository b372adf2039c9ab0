use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::decoder::Detokenizer;
use super::error::DetokenizerError;
use super::vocabulary::Vocabulary;
use crate::record::Kind;
use crate::ring::{Outbox, RingRecord};

/// One choice that is being generated.
#[derive(Debug)]
struct Slot {
    outbox: Arc<Mutex<Outbox>>,
    stream: u64,
    choice: u16,
    detokenizer: Detokenizer,
    /// Tokens that have not yet been counted by a record, because their text was held back.
    carried: u32,
}

impl Slot {
    fn write(&mut self, kind: Kind, text: &str, time_ns: u64) -> Result<(), DetokenizerError> {
        let record = RingRecord {
            stream: self.stream,
            time_ns,
            kind,
            choice: self.choice,
            token_count: self.carried,
            text,
        };
        self.carried = 0;
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(outbox.write(&record)?)
    }
}

/// The engine's way out: ids of a whole step in, records in the workers' rings out.
pub struct Emitter {
    vocabulary: Arc<Vocabulary>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    text: String,
}

impl fmt::Debug for Emitter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.slots.len() - self.free.len();
        formatter
            .debug_struct("Emitter")
            .field("open", &open)
            .finish_non_exhaustive()
    }
}

impl Emitter {
    /// An emitter with no choice open.
    #[must_use]
    pub const fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            vocabulary,
            slots: Vec::new(),
            free: Vec::new(),
            text: String::new(),
        }
    }

    /// Opens a slot for one choice of a stream.
    ///
    /// # Errors
    /// [`DetokenizerError::EmptyStop`].
    pub fn open<T: AsRef<str>>(
        &mut self,
        outbox: Arc<Mutex<Outbox>>,
        stream: u64,
        choice: u16,
        stops: &[T],
    ) -> Result<usize, DetokenizerError> {
        let slot = Slot {
            outbox,
            stream,
            choice,
            detokenizer: Detokenizer::new(Arc::clone(&self.vocabulary), stops)?,
            carried: 0,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(slot);
        Ok(index)
    }

    /// Takes the ids of one step, one for each slot named; a slot may be named again for its next
    /// id. Returns the slots that reached a stop string in this step; their further ids are
    /// ignored.
    ///
    /// # Errors
    /// [`DetokenizerError::UnevenStep`], [`DetokenizerError::UnknownSlot`] and
    /// [`DetokenizerError::UnknownToken`], before anything is written.
    pub fn step(
        &mut self,
        slots: &[usize],
        ids: &[i64],
        time_ns: u64,
    ) -> Result<Vec<usize>, DetokenizerError> {
        self.check(slots, ids)?;
        let mut stopped = Vec::new();
        for (&index, &id) in slots.iter().zip(ids) {
            if self.take(index, id, time_ns)? {
                stopped.push(index);
            }
        }
        Ok(stopped)
    }

    /// Shows what was held back, writes the finish record and closes the slot.
    ///
    /// Tokens that made no text at all are counted by the finish record.
    ///
    /// # Errors
    /// [`DetokenizerError::UnknownSlot`].
    pub fn finish(
        &mut self,
        index: usize,
        reason: &str,
        time_ns: u64,
    ) -> Result<(), DetokenizerError> {
        let mut slot = self.remove(index)?;
        self.text.clear();
        slot.detokenizer.finish(&mut self.text);
        if !self.text.is_empty() {
            slot.write(Kind::Token, &self.text, time_ns)?;
        }
        slot.write(Kind::Finish, reason, time_ns)
    }

    /// Closes a slot without a record.
    ///
    /// # Errors
    /// [`DetokenizerError::UnknownSlot`].
    pub fn close(&mut self, index: usize) -> Result<(), DetokenizerError> {
        self.remove(index).map(drop)
    }

    fn check(&self, slots: &[usize], ids: &[i64]) -> Result<(), DetokenizerError> {
        if slots.len() != ids.len() {
            return Err(DetokenizerError::UnevenStep {
                slots: slots.len(),
                ids: ids.len(),
            });
        }
        for &index in slots {
            if !matches!(self.slots.get(index), Some(Some(_))) {
                return Err(DetokenizerError::UnknownSlot(index));
            }
        }
        ids.iter()
            .try_for_each(|&id| self.vocabulary.bytes(id).map(drop))
    }

    /// Takes one id; true if it completed a stop string.
    fn take(&mut self, index: usize, id: i64, time_ns: u64) -> Result<bool, DetokenizerError> {
        let slot = self.slots.get_mut(index).and_then(Option::as_mut);
        let slot = slot.ok_or(DetokenizerError::UnknownSlot(index))?;
        if slot.detokenizer.stopped() {
            return Ok(false);
        }
        self.text.clear();
        slot.detokenizer.push(id, &mut self.text)?;
        slot.carried += 1;
        if !self.text.is_empty() {
            slot.write(Kind::Token, &self.text, time_ns)?;
        }
        Ok(slot.detokenizer.stopped())
    }

    fn remove(&mut self, index: usize) -> Result<Slot, DetokenizerError> {
        let slot = self.slots.get_mut(index).and_then(Option::take);
        let slot = slot.ok_or(DetokenizerError::UnknownSlot(index))?;
        self.free.push(index);
        Ok(slot)
    }
}
