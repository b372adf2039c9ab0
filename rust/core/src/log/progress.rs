//! The checks of a text up to one place: a running CRC-32 and a Merkle tree over leaves of 8 token
//! records.

use crc32fast::Hasher;
use sha2::{Digest as _, Sha256};

use super::merkle::{Digest, Merkle};

/// Token records covered by one leaf. A record into which several tokens were merged is one, so
/// that a client can count what it sees.
pub const LEAF_TOKENS: u64 = 8;

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

/// Everything that is needed to check on from one place.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) crc: u32,
    pub(super) open_leaf: Sha256,
    pub(super) tree: Merkle,
}

impl Progress {
    /// The beginning of a stream.
    pub(super) fn start(stream_id: &[u8]) -> Self {
        Self {
            records: 0,
            bytes: 0,
            crc: 0,
            open_leaf: start_leaf(stream_id, 0),
            tree: Merkle::default(),
        }
    }

    /// Adds the text of the next token record; returns the index and digest of a leaf that it ends.
    pub(super) fn add(&mut self, stream_id: &[u8], text: &str) -> Option<(u64, Digest)> {
        let prefix = LengthPrefix::of(text.len());
        self.crc = extend_crc(self.crc, text);
        self.open_leaf.update(prefix.bytes());
        self.open_leaf.update(text);
        self.records += 1;
        self.bytes += text.len() as u64;
        if !self.records.is_multiple_of(LEAF_TOKENS) {
            return None;
        }
        let index = self.tree.leaves();
        let next = start_leaf(stream_id, index + 1);
        let leaf = std::mem::replace(&mut self.open_leaf, next);
        let digest = leaf.finalize().into();
        self.tree.push(digest);
        Some((index, digest))
    }

    pub(super) fn checks(&self) -> Checks {
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
}

/// The CRC-32 (ISO-HDLC, as in zlib) after one more record: varint of the length, then the text.
pub(super) fn extend_crc(crc: u32, text: &str) -> u32 {
    let mut hasher = Hasher::new_with_initial(crc);
    hasher.update(LengthPrefix::of(text.len()).bytes());
    hasher.update(text.as_bytes());
    hasher.finalize()
}

/// A leaf without records.
pub(super) fn start_leaf(stream_id: &[u8], index: u64) -> Sha256 {
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

    fn checks(stream_id: &[u8], texts: &[&str]) -> Checks {
        let mut progress = Progress::start(stream_id);
        for text in texts {
            progress.add(stream_id, text);
        }
        progress.checks()
    }

    #[test]
    fn lengths_are_varints() {
        assert_eq!(LengthPrefix::of(0).bytes(), [0]);
        assert_eq!(LengthPrefix::of(127).bytes(), [127]);
        assert_eq!(LengthPrefix::of(300).bytes(), [0xac, 0x02]);
    }

    #[test]
    fn moving_a_byte_between_records_is_seen() {
        let (left, right) = (checks(b"s", &["ab", "c"]), checks(b"s", &["a", "bc"]));
        assert_ne!(left.crc, right.crc);
        assert_ne!(left.root, right.root);
    }

    #[test]
    fn the_same_text_in_another_stream_has_another_root() {
        let (one, other) = (checks(b"s", &["a"]), checks(b"t", &["a"]));
        assert_ne!(one.root, other.root);
        assert_eq!(one.crc, other.crc);
    }
}
