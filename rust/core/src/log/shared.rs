use std::ops::ControlFlow;

use super::cursor::{Cursor, Gap};
use super::error::LogError;
use super::integrity::{Checks, Integrity, Leaf, extend_crc};
use super::latency::InterToken;
use super::store::{Entry, Store};
use super::sync::Mutex;
use super::tally::Tally;
use super::waiters::Waiters;
use crate::record::{Kind, Record};
use crate::sse::{Encoder, Marks};

/// Text offsets are 32 bits wide and the arena may be half as large again as the bound.
const MAX_BYTES: usize = 1 << 30;
const MAX_RECORDS: usize = 1 << 30;

/// How much a log keeps and whether it checks its text.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Bytes of text kept.
    pub max_bytes: usize,
    /// Records kept.
    pub max_records: usize,
    /// The stream id that goes into the Merkle leaves; no checks are made without it.
    pub integrity: Option<Box<[u8]>>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 20,
            max_records: 1 << 16,
            integrity: None,
        }
    }
}

/// The log of one stream; `W` is whatever wakes a reader.
///
/// No call blocks longer than another call works, and none runs foreign code under the lock but
/// the closure given to `read`. Woken waiters are handed back, never called.
#[derive(Debug)]
pub struct Log<W> {
    state: Mutex<State<W>>,
}

#[derive(Debug)]
struct State<W> {
    store: Store,
    tally: Tally,
    integrity: Option<Box<Integrity>>,
    waiters: Waiters<W>,
}

impl<W> Log<W> {
    /// An empty log; nothing is allocated before the first record.
    ///
    /// # Errors
    /// `Bound` if a bound is zero or too large.
    pub fn new(options: &LogOptions) -> Result<Self, LogError> {
        check_bound("max_bytes", options.max_bytes, MAX_BYTES)?;
        check_bound("max_records", options.max_records, MAX_RECORDS)?;
        let integrity = options.integrity.as_deref();
        let state = State {
            store: Store::new(options.max_bytes, options.max_records),
            tally: Tally::default(),
            integrity: integrity.map(|stream_id| Box::new(Integrity::new(stream_id))),
            waiters: Waiters::new(),
        };
        Ok(Self {
            state: Mutex::new(state),
        })
    }

    /// Appends a record, moves every parked waiter to `woken` and returns the record's seq.
    ///
    /// # Errors
    /// `Closed` after `close`; `EndByAppend` for a terminal record.
    pub fn append(&self, entry: &Entry<'_>, woken: &mut Vec<W>) -> Result<u64, LogError> {
        if entry.kind == Kind::End {
            return Err(LogError::EndByAppend);
        }
        let mut state = self.state.lock();
        if state.closed() {
            return Err(LogError::Closed);
        }
        Ok(state.append(entry, woken))
    }

    /// Writes the terminal record; false if the stream has its outcome already.
    pub fn close(&self, outcome: &str, time_ns: u64, woken: &mut Vec<W>) -> bool {
        let mut state = self.state.lock();
        if state.closed() {
            return false;
        }
        let end = Entry {
            time_ns,
            kind: Kind::End,
            branch: 0,
            choice: 0,
            token_count: 0,
            text: outcome,
        };
        state.append(&end, woken);
        true
    }

    /// A reader that has everything up to `after`.
    ///
    /// # Errors
    /// `Ahead` if `after` was never written.
    pub fn cursor(&self, after: u64) -> Result<Cursor, LogError> {
        let state = self.state.lock();
        let tail = state.store.tail();
        if after > tail {
            return Err(LogError::Ahead { after, tail });
        }
        Ok(Cursor::after(after, state.closed() && after == tail))
    }

    /// Gives the reader its due records in order until `each` breaks.
    ///
    /// A reader that was overrun gets nothing and finds a gap in its cursor instead, until it skips it.
    pub fn read(&self, cursor: &mut Cursor, mut each: impl FnMut(&Record<'_>) -> ControlFlow<()>) {
        let state = self.state.lock();
        let oldest = state.store.oldest();
        if cursor.gap.is_none() && cursor.seq + 1 < oldest {
            let latest = state.store.tail();
            cursor.gap = Some(Gap { oldest, latest });
        }
        if cursor.gap.is_some() {
            return;
        }
        for record in state.store.since(cursor.seq + 1) {
            cursor.seq = record.seq;
            if each(&record).is_break() {
                break;
            }
        }
        cursor.finished = state.closed() && cursor.seq == state.store.tail();
    }

    /// Appends the frames of the due records to `out`, until it holds `max_bytes` or more.
    pub fn take(
        &self,
        cursor: &mut Cursor,
        encoder: &mut Encoder,
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) {
        self.read(cursor, |record| {
            encoder.encode(record, &Marks::NONE, out);
            if out.len() < max_bytes {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }

    /// Leaves a waiter for the next record; returns the waiter that it replaces, if any.
    ///
    /// # Errors
    /// Gives the waiter back if something is due or nothing will ever come: do not wait.
    pub fn park(&self, cursor: &mut Cursor, waiter: W) -> Result<Option<W>, W> {
        let mut state = self.state.lock();
        if cursor.gap.is_some() || cursor.seq < state.store.tail() || state.closed() {
            return Err(waiter);
        }
        let replaced = state.waiters.remove(cursor.ticket);
        cursor.ticket = state.waiters.park(waiter);
        Ok(replaced)
    }

    /// Takes the reader's waiter back if it was not woken yet.
    pub fn unpark(&self, cursor: &mut Cursor) -> Option<W> {
        let ticket = std::mem::take(&mut cursor.ticket);
        if ticket == 0 {
            return None;
        }
        self.state.lock().waiters.remove(ticket)
    }

    /// Whether the terminal record was written.
    pub fn closed(&self) -> bool {
        self.state.lock().closed()
    }

    /// The last seq written, 0 before the first.
    pub fn tail(&self) -> u64 {
        self.state.lock().store.tail()
    }

    /// The smallest seq still kept, `tail + 1` if nothing is.
    pub fn oldest(&self) -> u64 {
        self.state.lock().store.oldest()
    }

    /// Bytes of text kept.
    pub fn bytes(&self) -> usize {
        self.state.lock().store.bytes()
    }

    /// Bytes of memory that the log takes, its own size included.
    pub fn memory_bytes(&self) -> usize {
        let state = self.state.lock();
        let checked = state.integrity.as_ref();
        size_of::<Self>()
            + state.store.heap_bytes()
            + state.tally.heap_bytes()
            + state.waiters.heap_bytes()
            + checked.map_or(0, |integrity| integrity.heap_bytes())
    }

    /// Readers that wait at the moment.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiters.len()
    }

    /// Tokens that all token records stand for, dropped ones included.
    pub fn token_count(&self) -> u64 {
        self.state.lock().tally.token_count
    }

    /// Wall time of the first token record in unix nanoseconds.
    pub fn first_token_ns(&self) -> Option<u64> {
        self.state.lock().tally.first_token_ns
    }

    /// Wall time of the last token record in unix nanoseconds.
    pub fn last_token_ns(&self) -> Option<u64> {
        self.state.lock().tally.last_token_ns
    }

    /// Times between the tokens of a choice.
    pub fn inter_token(&self) -> InterToken {
        self.state.lock().tally.inter_token
    }

    /// The finish reason of a choice.
    pub fn finish_reason(&self, choice: u16) -> Option<String> {
        let state = self.state.lock();
        state.tally.finish_reason(choice).map(str::to_owned)
    }

    /// The usage record as JSON.
    pub fn usage(&self) -> Option<String> {
        self.state.lock().tally.usage.as_deref().map(str::to_owned)
    }

    /// The error record as JSON.
    pub fn error(&self) -> Option<String> {
        self.state.lock().tally.error.as_deref().map(str::to_owned)
    }

    /// How the stream ended.
    pub fn outcome(&self) -> Option<String> {
        let state = self.state.lock();
        state.tally.outcome.as_deref().map(str::to_owned)
    }

    /// The whole text of a choice.
    ///
    /// # Errors
    /// `Trimmed` if the beginning of the stream is no longer kept.
    pub fn text(&self, choice: u16) -> Result<String, LogError> {
        let state = self.state.lock();
        let oldest = state.store.oldest();
        if oldest > 1 {
            let latest = state.store.tail();
            return Err(LogError::Trimmed(Gap { oldest, latest }));
        }
        let records = state.store.since(1);
        Ok(records
            .filter(|record| record.kind == Kind::Token && record.choice == choice)
            .map(|record| record.text)
            .collect())
    }

    /// The checks over the text so far; none if the log makes none.
    pub fn checks(&self) -> Option<Checks> {
        self.state.lock().integrity.as_ref().map(|it| it.checks())
    }

    /// The finished leaves that end after `seq` and whose last record is still kept.
    pub fn leaves_after(&self, seq: u64) -> Vec<Leaf> {
        let state = self.state.lock();
        let leaves = state.integrity.as_ref();
        leaves.map_or_else(Vec::new, |it| it.leaves_after(seq).copied().collect())
    }

    /// The CRC-32 over the text up to `seq`, to compare with a resuming client's in one step.
    ///
    /// None if the log makes no checks, if `seq` was never written or lies before what is kept.
    pub fn crc_at(&self, seq: u64) -> Option<u32> {
        let state = self.state.lock();
        let integrity = state.integrity.as_ref()?;
        let oldest = state.store.oldest();
        if seq > state.store.tail() || seq + 1 < oldest {
            return None;
        }
        let (from, crc) = integrity.checkpoint(seq, oldest);
        let rest = state.store.since(from + 1);
        let tokens = rest
            .take_while(|record| record.seq <= seq)
            .filter(|record| record.kind == Kind::Token);
        Some(tokens.fold(crc, |crc, record| extend_crc(crc, record.text)))
    }
}

impl<W> State<W> {
    const fn closed(&self) -> bool {
        self.tally.outcome.is_some()
    }

    fn append(&mut self, entry: &Entry<'_>, woken: &mut Vec<W>) -> u64 {
        self.tally.add(entry);
        let seq = match self.integrity.as_deref_mut() {
            None => self.store.push(entry, |_| ()),
            Some(integrity) => {
                integrity.add(&entry.at(self.store.tail() + 1));
                self.store.push(entry, |gone| integrity.drop_record(gone))
            }
        };
        self.waiters.wake_all(woken);
        seq
    }
}

const fn check_bound(name: &'static str, value: usize, max: usize) -> Result<(), LogError> {
    if value == 0 || value > max {
        return Err(LogError::Bound { name, value, max });
    }
    Ok(())
}
