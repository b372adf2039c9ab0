//! A run of records as bytes, for a mirror of the log in another process.
//!
//! Everything is little-endian, numbers are LEB128 varints unless a width is given:
//! ```text
//! batch   = version:u8 flags:u8 first_seq time_ns head [checks] count record* crc32:u32
//! head    = count branch*                 what was known before the first record
//! branch  = number:u8 flags:u8 token_count [first_ns] [last_ns] [usage] [error] [outcome]
//!           count (choice bytes<<1|finished [reason])*
//! checks  = records bytes crc:u32 peak:32* [open leaf]     flag 1
//! leaf    = sha256 state:32 blocks buffered:u8 byte*
//! record  = tag:u8 [branch:u8 choice] [token_count] time_ns text
//! tag     = kind | 8 as before: branch and choice | 16 one token
//! text    = length byte*
//! ```
//! Times are differences, zigzag, to the record before; those of the head to the batch's. The CRC
//! covers all before it.

mod checks;
mod error;
mod head;
mod read;
mod records;
mod wire;

pub(super) use checks::{ChecksBefore, same};
pub use error::BatchError;
pub(super) use head::Head;
pub(super) use read::Batch;
pub use read::first_seq_of;

use super::place::Place;
use crate::record::Record;
use records::RecordWriter;

const VERSION: u8 = 1;
const HAS_CHECKS: u8 = 1;
/// A batch's CRC.
const CRC_BYTES: usize = 4;

/// Puts a batch together, record by record.
#[derive(Debug)]
pub(super) struct BatchWriter {
    out: Vec<u8>,
    records: RecordWriter,
}

impl BatchWriter {
    /// A batch that starts with `first` at this place.
    pub(super) fn new(first: &Record<'_>, place: &Place) -> Self {
        let checks = place.progress.as_ref();
        let mut out = vec![VERSION, if checks.is_some() { HAS_CHECKS } else { 0 }];
        wire::put(&mut out, first.seq);
        wire::put(&mut out, first.time_ns);
        head::write(&mut out, &place.tally, first);
        if let Some(progress) = checks {
            checks::write(&mut out, progress);
        }
        Self {
            out,
            records: RecordWriter::new(first.time_ns),
        }
    }

    /// Adds a record if it fits with those before it into `max_bytes`; the first always does.
    pub(super) fn add(&mut self, record: &Record<'_>, max_bytes: usize) -> bool {
        let fits = self.records.fits(record, max_bytes);
        if fits {
            self.records.write(record);
        }
        fits
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let Self { mut out, records } = self;
        out.reserve_exact(10 + records.bytes().len() + CRC_BYTES);
        wire::put(&mut out, records.count());
        out.extend_from_slice(records.bytes());
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }
}
