//! The checks of everything before a batch.

use sha2::Sha256;
use sha2::digest::common::hazmat::{SerializableState as _, SerializedState};

use super::BatchError;
use super::wire::{Wire, put};
use crate::log::merkle::Merkle;
use crate::log::options::MAX_FIRST_SEQ;
use crate::log::progress::{LEAF_TOKENS, Progress, start_leaf};

const STATE_BYTES: usize = 32;
const BLOCK_BYTES: usize = 64;
/// A leaf of more blocks would have a length in bits that no hash can hold.
const MAX_BLOCKS: u64 = 1 << 50;

pub(super) fn write(out: &mut Vec<u8>, progress: &Progress) {
    put(out, progress.records);
    put(out, progress.bytes);
    out.extend_from_slice(&progress.crc.to_le_bytes());
    for peak in progress.tree.peaks() {
        out.extend_from_slice(peak);
    }
    if !progress.records.is_multiple_of(LEAF_TOKENS) {
        write_leaf(out, &progress.open_leaf);
    }
}

/// The checks as they were read.
#[derive(Debug)]
pub(in crate::log) struct ChecksBefore {
    records: u64,
    bytes: u64,
    crc: u32,
    tree: Merkle,
    // None where a leaf has just ended.
    open_leaf: Option<Sha256>,
}

impl ChecksBefore {
    /// Reads checks that can be those of less than `first_seq` records.
    pub(super) fn read(wire: &mut Wire<'_>, first_seq: u64) -> Result<Self, BatchError> {
        let records = wire.bounded(first_seq - 1)?;
        let bytes = wire.bounded(MAX_FIRST_SEQ)?;
        let crc = u32::from_le_bytes(wire.array()?);
        if records == 0 && (bytes, crc) != (0, 0) {
            return Err(BatchError::Damaged("checks of no text"));
        }
        let leaves = records / LEAF_TOKENS;
        let peaks = (0..leaves.count_ones())
            .map(|_| wire.array())
            .collect::<Result<_, _>>()?;
        let tree = Merkle::from_peaks(leaves, peaks);
        let in_leaf = !records.is_multiple_of(LEAF_TOKENS);
        Ok(Self {
            records,
            bytes,
            crc,
            tree: tree.ok_or(BatchError::Damaged("peaks are missing"))?,
            open_leaf: in_leaf.then(|| read_leaf(wire)).transpose()?,
        })
    }

    /// The place in this stream where the checks go on.
    pub(in crate::log) fn progress(self, stream_id: &[u8]) -> Progress {
        let leaves = self.tree.leaves();
        Progress {
            records: self.records,
            bytes: self.bytes,
            crc: self.crc,
            open_leaf: self
                .open_leaf
                .unwrap_or_else(|| start_leaf(stream_id, leaves)),
            tree: self.tree,
        }
    }
}

/// Whether both have seen the same text.
pub(in crate::log) fn same(one: &Progress, other: &Progress) -> bool {
    (one.records, one.bytes, one.crc) == (other.records, other.bytes, other.crc)
        && one.tree == other.tree
        && one.open_leaf.serialize() == other.open_leaf.serialize()
}

/// The hash goes on elsewhere in the middle of a leaf: its records may be dropped here already, and
/// are then known by nothing else. Layout of `sha2` 0.11: state, blocks as u64, buffered as u8,
/// buffer padded with zeros.
fn write_leaf(out: &mut Vec<u8>, leaf: &Sha256) {
    let state = leaf.serialize();
    let (words, rest) = state.split_at(STATE_BYTES);
    let (blocks, buffer) = rest.split_at(size_of::<u64>());
    let blocks = blocks
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    out.extend_from_slice(words);
    put(out, blocks);
    out.extend_from_slice(&buffer[..=usize::from(buffer[0])]);
}

fn read_leaf(wire: &mut Wire<'_>) -> Result<Sha256, BatchError> {
    let words: [u8; STATE_BYTES] = wire.array()?;
    let blocks = wire.bounded(MAX_BLOCKS)?;
    let buffered = wire.byte()?;
    if usize::from(buffered) >= BLOCK_BYTES {
        return Err(BatchError::Damaged("a leaf with too much buffered"));
    }
    let buffer = wire.bytes(buffered.into())?;
    let mut state = SerializedState::<Sha256>::default();
    let (head, rest) = state.split_at_mut(STATE_BYTES);
    head.copy_from_slice(&words);
    let (length, rest) = rest.split_at_mut(size_of::<u64>());
    length.copy_from_slice(&blocks.to_le_bytes());
    rest[0] = buffered;
    rest[1..=buffer.len()].copy_from_slice(buffer);
    Sha256::deserialize(&state).map_err(|_| BatchError::Damaged("a leaf that is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_goes_on_wherever_it_was_cut() {
        for length in 0..=200 {
            let text = "x".repeat(length);
            let mut progress = Progress::start(b"stream");
            (0..11).for_each(|_| _ = progress.add(b"stream", "abc"));
            progress.add(b"stream", &text);
            let mut out = Vec::new();
            write(&mut out, &progress);
            let mut wire = Wire::new(&out);
            let read = ChecksBefore::read(&mut wire, 13).unwrap();
            let mut copy = read.progress(b"stream");
            assert_eq!(wire.left(), 0);
            assert!(same(&copy, &progress));
            progress.add(b"stream", "more");
            assert!(!same(&copy, &progress));
            copy.add(b"stream", "more");
            assert_eq!(copy.checks(), progress.checks());
        }
    }

    #[test]
    fn more_records_than_seqs_are_refused() {
        let mut progress = Progress::start(b"s");
        (0..8).for_each(|_| _ = progress.add(b"s", "abc"));
        let mut out = Vec::new();
        write(&mut out, &progress);
        assert!(ChecksBefore::read(&mut Wire::new(&out), 8).is_err());
        assert!(ChecksBefore::read(&mut Wire::new(&out), 9).is_ok());
    }
}
