//! The checks of a stream's text, at its tail, at its oldest record and where they are asked for.
//!
//! They find loss, doubling, swaps and damage; whoever can forge the text can forge them too.

use std::collections::VecDeque;
use std::iter::Peekable;

use super::merkle::Digest;
use super::progress::{Checks, Progress, extend_crc};
use super::store::Store;
use crate::record::{Kind, Record};

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

#[derive(Clone, Debug)]
pub(crate) struct Integrity {
    stream_id: Box<[u8]>,
    live: Progress,
    // Over everything before the oldest record, so that a reader can be checked from there.
    dropped: Progress,
    // The last leaf that lies there.
    dropped_leaf: u64,
    leaves: VecDeque<Leaf>,
}

impl Integrity {
    /// The checks of a stream from its beginning.
    pub(crate) fn new(stream_id: &[u8]) -> Self {
        Self::resuming(stream_id.into(), Progress::start(stream_id))
    }

    /// The checks of a stream of which everything so far has `progress` and is not here.
    pub(super) fn resuming(stream_id: Box<[u8]>, progress: Progress) -> Self {
        Self {
            stream_id,
            live: progress.clone(),
            dropped: progress,
            dropped_leaf: 0,
            leaves: VecDeque::new(),
        }
    }

    pub(super) fn stream_id(&self) -> &[u8] {
        &self.stream_id
    }

    pub(super) const fn live(&self) -> &Progress {
        &self.live
    }

    pub(crate) fn add(&mut self, record: &Record<'_>) {
        if record.kind != Kind::Token {
            return;
        }
        if let Some((index, digest)) = self.live.add(&self.stream_id, record.text) {
            self.leaves.push_back(Leaf {
                index,
                last_seq: record.seq,
                crc: self.live.crc,
                digest,
            });
        }
    }

    /// Takes note that the store no longer has `record`.
    pub(crate) fn drop_record(&mut self, record: &Record<'_>) {
        if record.kind != Kind::Token {
            return;
        }
        if self.dropped.add(&self.stream_id, record.text).is_some() {
            self.dropped_leaf = record.seq;
            self.leaves.pop_front();
        }
    }

    /// The CRC-32 of the text so far.
    pub(crate) const fn crc(&self) -> u32 {
        self.live.crc
    }

    pub(crate) fn checks(&self) -> Checks {
        self.live.checks()
    }

    /// The kept leaves that end after `seq`.
    pub(crate) fn leaves_after(&self, seq: u64) -> impl Iterator<Item = &Leaf> {
        self.leaves.range(self.leaves_until(seq)..)
    }

    /// The last leaf that ends at or before `seq` and after which nothing is missing; 0 if none.
    pub(super) fn last_leaf_before(&self, seq: u64, oldest: u64) -> u64 {
        match self.leaves_until(seq).checked_sub(1) {
            Some(at) => self.leaves[at].last_seq,
            None if self.dropped_leaf + 1 == oldest && self.dropped_leaf <= seq => {
                self.dropped_leaf
            }
            None => 0,
        }
    }

    /// The CRC-32 over the text up to `seq`, which lies between `oldest - 1` and the tail.
    pub(super) fn crc_at(&self, seq: u64, store: &Store) -> u32 {
        let (from, crc) = match self.leaves_until(seq).checked_sub(1) {
            Some(at) => (self.leaves[at].last_seq, self.leaves[at].crc),
            None => (store.oldest() - 1, self.dropped.crc),
        };
        tokens(store, from, seq).fold(crc, |crc, record| extend_crc(crc, record.text))
    }

    /// The checks of what a reader at `seq` is given next.
    pub(super) fn follow(&self, seq: u64, crc: u32) -> Following<'_, impl Iterator<Item = &Leaf>> {
        Following {
            crc,
            leaves: self.leaves_after(seq).peekable(),
        }
    }

    /// Everything up to `seq`, which lies between `oldest - 1` and the tail.
    pub(super) fn progress_at(&self, seq: u64, store: &Store) -> Progress {
        let mut progress = self.dropped.clone();
        for record in tokens(store, store.oldest() - 1, seq) {
            progress.add(&self.stream_id, record.text);
        }
        progress
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.stream_id.len()
            + self.leaves.capacity() * size_of::<Leaf>()
            + self.live.tree.heap_bytes()
            + self.dropped.tree.heap_bytes()
    }

    fn leaves_until(&self, seq: u64) -> usize {
        self.leaves.partition_point(|leaf| leaf.last_seq <= seq)
    }
}

/// The running checks of one reader.
pub(super) struct Following<'a, L: Iterator<Item = &'a Leaf>> {
    crc: u32,
    leaves: Peekable<L>,
}

impl<'a, L: Iterator<Item = &'a Leaf>> Following<'a, L> {
    pub(super) const fn crc(&self) -> u32 {
        self.crc
    }

    /// The CRC-32 up to and with the next record, and the leaf that it ends.
    pub(super) fn pass(&mut self, record: &Record<'_>) -> (u32, Option<&'a Leaf>) {
        if record.kind != Kind::Token {
            return (self.crc, None);
        }
        self.crc = extend_crc(self.crc, record.text);
        let leaf = self.leaves.next_if(|leaf| leaf.last_seq == record.seq);
        (self.crc, leaf)
    }
}

/// The token records after `from` and up to `until`.
fn tokens(store: &Store, from: u64, until: u64) -> impl Iterator<Item = Record<'_>> {
    let records = store.since(from + 1);
    records
        .take_while(move |record| record.seq <= until)
        .filter(|record| record.kind == Kind::Token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(seq: u64) -> Record<'static> {
        Record {
            seq,
            time_ns: 0,
            kind: Kind::Token,
            branch: 0,
            choice: 0,
            token_count: 1,
            text: "x",
        }
    }

    fn filled(count: u64) -> Integrity {
        let mut integrity = Integrity::new(b"s");
        for seq in 1..=count {
            integrity.add(&token(seq));
        }
        integrity
    }

    #[test]
    fn leaves_end_after_every_eighth_token_record() {
        let integrity = filled(17);
        let ends: Vec<_> = integrity
            .leaves_after(0)
            .map(|leaf| leaf.last_seq)
            .collect();
        assert_eq!(ends, [8, 16]);
        assert_eq!(integrity.leaves_after(8).count(), 1);
    }

    #[test]
    fn a_reader_restarts_at_a_leaf_after_which_nothing_is_missing() {
        let mut integrity = filled(20);
        assert_eq!(
            [7, 8, 15, 16, 20].map(|seq| integrity.last_leaf_before(seq, 1)),
            [0, 8, 8, 16, 16]
        );
        for seq in 1..=8 {
            integrity.drop_record(&token(seq));
        }
        assert_eq!(integrity.last_leaf_before(12, 9), 8);
        assert_eq!(integrity.last_leaf_before(7, 9), 0);
        integrity.drop_record(&token(9));
        assert_eq!(integrity.last_leaf_before(12, 10), 0);
        assert_eq!(integrity.last_leaf_before(18, 10), 16);
    }
}
