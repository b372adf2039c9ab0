//! Records in a batch.

use super::BatchError;
use super::wire::{Wire, put, put_text, put_time};
use crate::log::store::Entry;
use crate::record::{Kind, Record};

const KIND: u8 = 7;
const SAME_PLACE: u8 = 8;
const ONE_TOKEN: u8 = 16;

/// Writes records one after the other.
#[derive(Debug)]
pub(super) struct RecordWriter {
    out: Vec<u8>,
    count: u64,
    time_ns: u64,
    place: (u8, u16),
}

impl RecordWriter {
    /// A writer of a batch whose time is that of its first record.
    pub(super) const fn new(time_ns: u64) -> Self {
        Self {
            out: Vec::new(),
            count: 0,
            time_ns,
            place: (0, 0),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.out
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Whether this record fits with those before it into `max_bytes`; the first always does.
    pub(super) fn fits(&self, record: &Record<'_>, max_bytes: usize) -> bool {
        const LONGEST_FRAME: usize = 1 + 4 + 5 + 10 + 10;
        self.count == 0 || self.out.len() + record.text.len() + LONGEST_FRAME <= max_bytes
    }

    pub(super) fn write(&mut self, record: &Record<'_>) {
        let place = (record.branch, record.choice);
        let same_place = place == self.place;
        let one_token = record.token_count == 1;
        self.out.push(
            record.kind as u8
                | if same_place { SAME_PLACE } else { 0 }
                | if one_token { ONE_TOKEN } else { 0 },
        );
        if !same_place {
            self.out.push(record.branch);
            put(&mut self.out, record.choice.into());
        }
        if !one_token {
            put(&mut self.out, record.token_count.into());
        }
        put_time(&mut self.out, record.time_ns, self.time_ns);
        put_text(&mut self.out, record.text);
        (self.place, self.time_ns) = (place, record.time_ns);
        self.count += 1;
    }
}

/// Reads what a [`RecordWriter`] wrote; ends with the last record or the first damage.
#[derive(Clone, Debug)]
pub(super) struct RecordReader<'a> {
    wire: Wire<'a>,
    left: u64,
    time_ns: u64,
    place: (u8, u16),
}

impl<'a> RecordReader<'a> {
    pub(super) const fn new(wire: Wire<'a>, count: u64, time_ns: u64) -> Self {
        Self {
            wire,
            left: count,
            time_ns,
            place: (0, 0),
        }
    }

    /// Checks every record and that nothing follows the last or a terminal one.
    pub(super) fn check(mut self) -> Result<(), BatchError> {
        let mut ended = false;
        for entry in self.by_ref() {
            if ended {
                return Err(BatchError::Damaged("records follow the terminal one"));
            }
            ended = entry?.kind == Kind::End;
        }
        if self.wire.left() > 0 {
            return Err(BatchError::Damaged("bytes follow the last record"));
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Entry<'a>, BatchError> {
        let tag = self.wire.byte()?;
        let kind = Kind::from_wire(tag & KIND);
        let (Some(kind), true) = (kind, tag < 2 * ONE_TOKEN) else {
            return Err(BatchError::Damaged("a record of unknown kind"));
        };
        if tag & SAME_PLACE == 0 {
            self.place = (self.wire.byte()?, self.wire.choice()?);
        }
        let token_count = match tag & ONE_TOKEN {
            0 => self.wire.bounded(u32::MAX.into())? as u32,
            _ => 1,
        };
        self.time_ns = self.wire.time(self.time_ns)?;
        Ok(Entry {
            time_ns: self.time_ns,
            kind,
            branch: self.place.0,
            choice: self.place.1,
            token_count,
            text: self.wire.text()?,
        })
    }
}

impl<'a> Iterator for RecordReader<'a> {
    type Item = Result<Entry<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = self.read();
        if entry.is_err() {
            self.left = 0;
        }
        Some(entry)
    }
}
