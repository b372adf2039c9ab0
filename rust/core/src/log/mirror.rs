//! Batches out of a log, and back into a mirror of it.

use super::batch::{Batch, BatchError, BatchWriter, ChecksBefore, same};
use super::error::LogError;
use super::integrity::Integrity;
use super::progress::Progress;
use super::shared::Log;
use super::state::State;

/// A run of records as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// What `Log::unpack` takes.
    pub bytes: Vec<u8>,
    /// The first seq in it.
    pub first: u64,
    /// The last seq in it.
    pub last: u64,
}

impl<W> Log<W> {
    /// Packs at most `max_records` of the records after `after`, or of those after the ones that
    /// are no longer kept; none if nothing is due.
    ///
    /// The records take about `max_bytes`, or there is one that is larger.
    ///
    /// # Errors
    /// `Ahead` if `after` was never written.
    pub fn pack(
        &self,
        after: u64,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<Option<Packed>, LogError> {
        let mut state = self.state.lock();
        let tail = state.store.tail();
        if after > tail {
            return Err(LogError::Ahead { after, tail });
        }
        let before = after.max(state.store.oldest() - 1);
        Ok(state.pack(before, max_records.max(1), max_bytes))
    }

    /// Appends the records of a batch that are not here yet, moves every parked waiter to `woken`
    /// if there are any, and returns the tail.
    ///
    /// A log without records takes over everything that was known before the batch.
    ///
    /// # Errors
    /// See [`BatchError`]; nothing has changed then.
    pub fn unpack(&self, batch: &[u8], woken: &mut Vec<W>) -> Result<u64, BatchError> {
        let batch = Batch::parse(batch)?;
        let mut state = self.state.lock();
        if batch.last > state.store.tail() {
            state.unpack(batch)?;
            state.waiters.wake_all(woken);
        }
        Ok(state.store.tail())
    }
}

impl<W> State<W> {
    fn pack(&mut self, before: u64, max_records: usize, max_bytes: usize) -> Option<Packed> {
        self.store.since(before + 1).next()?;
        let mut place = self.take_place(before);
        let stream_id = self.integrity().map(Integrity::stream_id);
        let mut due = self.store.since(before + 1).peekable();
        let mut batch = BatchWriter::new(due.peek()?, &place);
        for record in due.take(max_records) {
            if !batch.add(&record, max_bytes) {
                break;
            }
            place.pass(&record, stream_id);
        }
        let last = place.seq;
        if last < self.store.tail() || !self.closed() {
            self.packed = Some(Box::new(place));
        }
        Some(Packed {
            bytes: batch.finish(),
            first: before + 1,
            last,
        })
    }

    fn unpack(&mut self, mut batch: Batch<'_>) -> Result<(), BatchError> {
        let checks = batch.checks.take();
        self.check_batch(&batch)?;
        if self.untouched() {
            self.adopt(&mut batch, checks);
        } else if batch.first == self.store.tail() + 1 {
            self.compare(batch.first, checks)?;
        }
        for entry in batch.since(self.store.tail() + 1) {
            self.append(&entry);
        }
        Ok(())
    }

    /// Refuses a batch that does not go on here.
    fn check_batch(&self, batch: &Batch<'_>) -> Result<(), BatchError> {
        let (first, tail) = (batch.first, self.store.tail());
        if self.closed() {
            return Err(BatchError::Closed);
        }
        if first > tail + 1 {
            return Err(BatchError::Hole { first, tail });
        }
        let head = batch.head.last_branch().filter(|_| self.untouched());
        let mut branches = head
            .into_iter()
            .chain(batch.since(first).map(|entry| entry.branch));
        match branches.find(|&branch| self.check_branch(branch).is_err()) {
            Some(branch) => Err(BatchError::Branch(branch)),
            None => Ok(()),
        }
    }

    /// Makes the place before a batch that of this log, which has no records.
    fn adopt(&mut self, batch: &mut Batch<'_>, checks: Option<ChecksBefore>) {
        let head = std::mem::take(&mut batch.head);
        self.store.restart(batch.first);
        for (branch, choice, bytes) in head.texts() {
            self.store.omit_text(branch, choice, bytes);
        }
        head.restore(&mut self.tally);
        if let Some(checks) = checks {
            self.resume_checks(|stream_id| checks.progress(stream_id));
        } else if batch.first == 1 {
            self.resume_checks(Progress::start);
        }
    }

    /// Refuses a batch that follows another text than the one that is here.
    fn compare(&self, first: u64, checks: Option<ChecksBefore>) -> Result<(), BatchError> {
        let (Some(integrity), Some(checks)) = (self.integrity(), checks) else {
            return Ok(());
        };
        let theirs = checks.progress(integrity.stream_id());
        if !same(integrity.live(), &theirs) {
            return Err(BatchError::Differs { first });
        }
        Ok(())
    }
}
