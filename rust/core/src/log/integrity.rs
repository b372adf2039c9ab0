//! The checks of a stream's text: a running CRC-32 and a Merkle leaf for every 8 token records.
//!
//! They find loss, doubling, swaps and damage; whoever can forge the text can forge them too.

use std::collections::VecDeque;

use crc32fast::Hasher;
use sha2::{Digest as _, Sha256};

use super::merkle::{Digest, Merkle};
use crate::record::{Kind, Record};

/// Token records covered by one leaf. A record into which several tokens were merged is one, so
/// that a client can count what it sees.
pub const LEAF_TOKENS: u64 = 8;

/// One finished leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// 0, 1, 2, …
    pub index: u64,
    /// The seq of its last token record.
    pub last_seq: u64,
    /// CRC-32 over all token records up to `last_seq`.
    pub crc: u32,
    /// SHA-256(0x00 ‖ stream id ‖ index as big-endian u64 ‖ records).
    pub digest: Digest,
}

/// The sum of a stream's text so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Token records.
    pub records: u64,
    /// Bytes of their text.
    pub bytes: u64,
    /// CRC-32 over their length-prefixed text.
    pub crc: u32,
    /// The Merkle root, a short last leaf included.
    pub root: Digest,
}

#[derive(Clone, Debug)]
pub(crate) struct Integrity {
    stream_id: Box<[u8]>,
    records: u64,
    bytes: u64,
    crc: u32,
    // Over everything the store has dropped, so that a resumed reader can be checked from there.
    dropped_crc: u32,
    open_leaf: Sha256,
    tree: Merkle,
    leaves: VecDeque<Leaf>,
}

impl Integrity {
    pub(crate) fn new(stream_id: &[u8]) -> Self {
        Self {
            stream_id: stream_id.into(),
            records: 0,
            bytes: 0,
            crc: 0,
            dropped_crc: 0,
            open_leaf: start_leaf(stream_id, 0),
            tree: Merkle::default(),
            leaves: VecDeque::new(),
        }
    }

    pub(crate) fn add(&mut self, record: &Record<'_>) {
        if record.kind != Kind::Token {
            return;
        }
        let prefix = LengthPrefix::of(record.text.len());
        self.crc = extend_crc(self.crc, record.text);
        self.open_leaf.update(prefix.bytes());
        self.open_leaf.update(record.text);
        self.records += 1;
        self.bytes += record.text.len() as u64;
        if self.records.is_multiple_of(LEAF_TOKENS) {
            self.end_leaf(record.seq);
        }
    }

    /// Takes note that the store no longer has `record`.
    pub(crate) fn drop_record(&mut self, record: &Record<'_>) {
        if record.kind == Kind::Token {
            self.dropped_crc = extend_crc(self.dropped_crc, record.text);
        }
        while self
            .leaves
            .front()
            .is_some_and(|leaf| leaf.last_seq <= record.seq)
        {
            self.leaves.pop_front();
        }
    }

    /// The CRC-32 of the text so far.
    pub(crate) const fn crc(&self) -> u32 {
        self.crc
    }

    pub(crate) fn checks(&self) -> Checks {
        let mut tree = self.tree.clone();
        if !self.records.is_multiple_of(LEAF_TOKENS) {
            tree.push(self.open_leaf.clone().finalize().into());
        }
        Checks {
            records: self.records,
            bytes: self.bytes,
            crc: self.crc,
            root: tree.root(),
        }
    }

    /// The kept leaves that end after `seq`.
    pub(crate) fn leaves_after(&self, seq: u64) -> impl Iterator<Item = &Leaf> {
        self.leaves.range(self.leaves_until(seq)..)
    }

    /// The nearest place at or before `seq` whose CRC is known: its seq and the CRC.
    ///
    /// `oldest` is the oldest record kept; the CRC before it is known too.
    pub(super) fn checkpoint(&self, seq: u64, oldest: u64) -> (u64, u32) {
        match self.leaves_until(seq).checked_sub(1) {
            Some(at) => (self.leaves[at].last_seq, self.leaves[at].crc),
            None => (oldest - 1, self.dropped_crc),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.stream_id.len() + self.leaves.capacity() * size_of::<Leaf>()
    }

    fn leaves_until(&self, seq: u64) -> usize {
        self.leaves.partition_point(|leaf| leaf.last_seq <= seq)
    }

    fn end_leaf(&mut self, last_seq: u64) {
        let index = self.tree.leaves();
        let next = start_leaf(&self.stream_id, index + 1);
        let digest = std::mem::replace(&mut self.open_leaf, next)
            .finalize()
            .into();
        self.tree.push(digest);
        self.leaves.push_back(Leaf {
            index,
            last_seq,
            crc: self.crc,
            digest,
        });
    }
}

/// The CRC-32 (ISO-HDLC, as in zlib) after one more record: varint of the length, then the text.
pub(super) fn extend_crc(crc: u32, text: &str) -> u32 {
    let mut hasher = Hasher::new_with_initial(crc);
    hasher.update(LengthPrefix::of(text.len()).bytes());
    hasher.update(text.as_bytes());
    hasher.finalize()
}

fn start_leaf(stream_id: &[u8], index: u64) -> Sha256 {
    let mut hash = Sha256::new();
    hash.update([0]);
    hash.update(stream_id);
    hash.update(index.to_be_bytes());
    hash
}

/// A length as LEB128 varint.
struct LengthPrefix {
    buffer: [u8; 10],
    used: usize,
}

impl LengthPrefix {
    const fn of(length: usize) -> Self {
        let mut rest = length;
        let mut buffer = [0; 10];
        let mut used = 0;
        while rest >= 0x80 {
            buffer[used] = (rest & 0x7f) as u8 | 0x80;
            rest >>= 7;
            used += 1;
        }
        buffer[used] = rest as u8;
        Self {
            buffer,
            used: used + 1,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(texts: &[&str]) -> Checks {
        let mut integrity = Integrity::new(b"s");
        for (seq, text) in (1..).zip(texts) {
            integrity.add(&token(seq, text));
        }
        integrity.checks()
    }

    fn token(seq: u64, text: &str) -> Record<'_> {
        Record {
            seq,
            time_ns: 0,
            kind: Kind::Token,
            branch: 0,
            choice: 0,
            token_count: 1,
            text,
        }
    }

    #[test]
    fn lengths_are_varints() {
        assert_eq!(LengthPrefix::of(0).bytes(), [0]);
        assert_eq!(LengthPrefix::of(127).bytes(), [127]);
        assert_eq!(LengthPrefix::of(300).bytes(), [0xac, 0x02]);
    }

    #[test]
    fn moving_a_byte_between_records_is_seen() {
        let (left, right) = (checks(&["ab", "c"]), checks(&["a", "bc"]));
        assert_ne!(left.crc, right.crc);
        assert_ne!(left.root, right.root);
    }

    #[test]
    fn the_same_text_in_another_stream_has_another_root() {
        let mut other = Integrity::new(b"t");
        other.add(&token(1, "a"));
        assert_ne!(checks(&["a"]).root, other.checks().root);
        assert_eq!(checks(&["a"]).crc, other.checks().crc);
    }

    #[test]
    fn leaves_end_after_every_eighth_token_record() {
        let mut integrity = Integrity::new(b"s");
        for seq in 1..=17 {
            integrity.add(&token(seq, "x"));
        }
        let ends: Vec<_> = integrity
            .leaves_after(0)
            .map(|leaf| leaf.last_seq)
            .collect();
        assert_eq!(ends, [8, 16]);
        assert_eq!(integrity.leaves_after(8).count(), 1);
    }
}
