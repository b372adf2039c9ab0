//! Readers: where they are, what they are given, how they wait.

use std::ops::ControlFlow;

use super::cursor::{Cursor, Gap};
use super::error::LogError;
use super::integrity::Integrity;
use super::shared::Log;
use super::state::State;
use crate::record::{Kind, Record};
use crate::sse::{Encoder, Marks};

impl<W> Log<W> {
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
        if state.finds_gap(cursor) {
            return;
        }
        cursor.crc = None;
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
        let state = self.state.lock();
        if state.finds_gap(cursor) {
            return;
        }
        match state.integrity() {
            None => state.take_unchecked(cursor, encoder, max_bytes, out),
            Some(integrity) => state.take_checked(integrity, cursor, encoder, max_bytes, out),
        }
        cursor.finished = state.closed() && cursor.seq == state.store.tail();
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

    /// Readers that wait at the moment.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiters.len()
    }
}

impl<W> State<W> {
    /// Whether the reader has a gap to deal with, noting a new one.
    fn finds_gap(&self, cursor: &mut Cursor) -> bool {
        let oldest = self.store.oldest();
        if cursor.gap.is_none() && cursor.seq + 1 < oldest {
            let latest = self.store.tail();
            cursor.gap = Some(Gap { oldest, latest });
        }
        cursor.gap.is_some()
    }

    fn take_unchecked(
        &self,
        cursor: &mut Cursor,
        encoder: &mut Encoder,
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) {
        for record in self.store.since(cursor.seq + 1) {
            cursor.seq = record.seq;
            match record.kind {
                Kind::Finish | Kind::End => self.encode_end(encoder, &record, Marks::NONE, out),
                _ => encoder.encode(&record, &Marks::NONE, out),
            }
            if out.len() >= max_bytes {
                break;
            }
        }
    }

    fn take_checked(
        &self,
        integrity: &Integrity,
        cursor: &mut Cursor,
        encoder: &mut Encoder,
        max_bytes: usize,
        out: &mut Vec<u8>,
    ) {
        let known = cursor.crc;
        let crc = known.unwrap_or_else(|| integrity.crc_at(cursor.seq, &self.store));
        let mut following = integrity.follow(cursor.seq, crc);
        for record in self.store.since(cursor.seq + 1) {
            cursor.seq = record.seq;
            let (crc, leaf) = following.pass(&record);
            let mut marks = Marks {
                crc: Some(crc),
                leaf,
                ..Marks::NONE
            };
            match record.kind {
                Kind::Finish => self.encode_end(encoder, &record, marks, out),
                Kind::End => {
                    let checks = integrity.checks();
                    marks.checks = Some(&checks);
                    self.encode_end(encoder, &record, marks, out);
                }
                _ => encoder.encode(&record, &marks, out),
            }
            if out.len() >= max_bytes {
                break;
            }
        }
        cursor.crc = Some(following.crc());
    }

    /// Writes the frames of a record that ends a choice or the stream: these may tell whole texts.
    fn encode_end(
        &self,
        encoder: &mut Encoder,
        record: &Record<'_>,
        marks: Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        let text = |branch, choice| self.store.text(branch, choice, record.seq).1;
        let marks = Marks {
            text: Some(&text),
            ..marks
        };
        encoder.encode(record, &marks, out);
    }
}
