//! A batch as it comes in: checked whole before anything of it is used.

use super::checks::ChecksBefore;
use super::records::RecordReader;
use super::wire::Wire;
use super::{BatchError, CRC_BYTES, HAS_CHECKS, Head, VERSION};
use crate::log::options::MAX_FIRST_SEQ;
use crate::log::store::Entry;

/// A batch that is whole.
#[derive(Debug)]
pub(in crate::log) struct Batch<'a> {
    pub(in crate::log) first: u64,
    pub(in crate::log) last: u64,
    pub(in crate::log) head: Head,
    pub(in crate::log) checks: Option<ChecksBefore>,
    records: RecordReader<'a>,
}

impl<'a> Batch<'a> {
    pub(in crate::log) fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let (flags, mut wire) = open(bytes)?;
        let first = first_seq(&mut wire)?;
        let time_ns = wire.number()?;
        let head = Head::read(&mut wire, time_ns)?;
        if first == 1 && head.last_branch().is_some() {
            return Err(BatchError::Damaged("something before the first record"));
        }
        let checks = (flags & HAS_CHECKS != 0)
            .then(|| ChecksBefore::read(&mut wire, first))
            .transpose()?;
        let count = wire.number()?;
        if count == 0 || count > wire.left() as u64 {
            return Err(BatchError::Damaged("its count of records is wrong"));
        }
        let records = RecordReader::new(wire, count, time_ns);
        records.clone().check()?;
        Ok(Self {
            first,
            last: first + count - 1,
            head,
            checks,
            records,
        })
    }

    /// The records with their seqs, from `seq` on.
    pub(in crate::log) fn since(&self, seq: u64) -> impl Iterator<Item = Entry<'a>> {
        // `parse` has seen that none is damaged.
        let entries = self.records.clone().flatten();
        let numbered = (self.first..).zip(entries);
        numbered
            .skip_while(move |(at, _)| *at < seq)
            .map(|(_, entry)| entry)
    }
}

/// The seq of the first record in a batch.
///
/// # Errors
/// `Damaged`, `Version`.
pub fn first_seq_of(batch: &[u8]) -> Result<u64, BatchError> {
    let (_, mut wire) = open(batch)?;
    first_seq(&mut wire)
}

/// Checks the CRC and version; returns the flags and what follows them.
fn open(bytes: &[u8]) -> Result<(u8, Wire<'_>), BatchError> {
    const SHORT: BatchError = BatchError::Damaged("it ends too early");
    let (payload, crc) = bytes.split_last_chunk::<CRC_BYTES>().ok_or(SHORT)?;
    if crc32fast::hash(payload) != u32::from_le_bytes(*crc) {
        return Err(BatchError::Damaged("its CRC is wrong"));
    }
    let mut wire = Wire::new(payload);
    let version = wire.byte()?;
    if version != VERSION {
        return Err(BatchError::Version(version));
    }
    let flags = wire.byte()?;
    if flags & !HAS_CHECKS != 0 {
        return Err(BatchError::Damaged("a batch of unknown form"));
    }
    Ok((flags, wire))
}

fn first_seq(wire: &mut Wire<'_>) -> Result<u64, BatchError> {
    match wire.bounded(MAX_FIRST_SEQ)? {
        0 => Err(BatchError::Damaged("seqs start at 1")),
        first => Ok(first),
    }
}
