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
pub(super) use records::RecordWriter;

use super::progress::Progress;
use crate::record::Record;

const VERSION: u8 = 1;
const HAS_CHECKS: u8 = 1;
/// Version, flags, first seq, time and count at their longest, and the CRC.
const FRAME_BYTES: usize = 2 + 3 * 10 + 4;

/// Puts a batch together; `first` is the first record in it.
pub(super) fn seal(
    first: &Record<'_>,
    head: &Head,
    checks: Option<&Progress>,
    records: &RecordWriter,
) -> Vec<u8> {
    let body = records.bytes();
    let mut out = Vec::with_capacity(FRAME_BYTES + body.len() + 256);
    out.push(VERSION);
    out.push(if checks.is_some() { HAS_CHECKS } else { 0 });
    wire::put(&mut out, first.seq);
    wire::put(&mut out, first.time_ns);
    head.write(&mut out, first.time_ns);
    if let Some(progress) = checks {
        checks::write(&mut out, progress);
    }
    wire::put(&mut out, records.count());
    out.extend_from_slice(body);
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}
