//! Records in one byte arena with an index by seq; the oldest give way to the newest.

use std::collections::VecDeque;

use crate::record::{Kind, Record};

/// What is appended: a record that has no seq yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Wall time in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// What the text means.
    pub kind: Kind,
    /// Which request of the stream this belongs to.
    pub branch: u8,
    /// Which choice of the branch this belongs to.
    pub choice: u16,
    /// How many tokens the text stands for.
    pub token_count: u32,
    /// The text.
    pub text: &'a str,
}

/// Where a record's text lies and everything else about it: 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Slot {
    time_ns: u64,
    // Offset in the endless text of the stream, modulo 2^32; the arena starts at `Store::base`.
    start: u32,
    length: u32,
    token_count: u32,
    choice: u16,
    kind: Kind,
    branch: u8,
}

#[derive(Debug)]
pub(super) struct Store {
    arena: String,
    slots: VecDeque<Slot>,
    base: u32,
    bytes: usize,
    tail: u64,
    max_bytes: usize,
    max_records: usize,
}

impl Store {
    pub(super) const fn new(max_bytes: usize, max_records: usize) -> Self {
        Self {
            arena: String::new(),
            slots: VecDeque::new(),
            base: 0,
            bytes: 0,
            tail: 0,
            max_bytes,
            max_records,
        }
    }

    /// The last seq written, 0 before the first.
    pub(super) const fn tail(&self) -> u64 {
        self.tail
    }

    /// The smallest seq still kept, `tail + 1` if nothing is.
    pub(super) fn oldest(&self) -> u64 {
        self.tail + 1 - self.slots.len() as u64
    }

    /// Bytes of text kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of heap that the store holds.
    pub(super) fn heap_bytes(&self) -> usize {
        self.arena.capacity() + self.slots.capacity() * size_of::<Slot>()
    }

    /// Appends, drops what no longer fits (each such record is shown to `dropped`) and returns the seq.
    ///
    /// A record larger than the whole bound is dropped at once, so that readers are told of a gap
    /// rather than left with a text that looks whole. The terminal record is always kept.
    pub(super) fn push(&mut self, entry: &Entry<'_>, mut dropped: impl FnMut(&Record<'_>)) -> u64 {
        self.tail += 1;
        let length = entry.text.len();
        while let Some(slot) = self.slots.front().copied() {
            let full = self.slots.len() >= self.max_records;
            if !full && self.bytes + length <= self.max_bytes {
                break;
            }
            let seq = self.tail - self.slots.len() as u64;
            dropped(&self.record(seq, &slot));
            self.slots.pop_front();
            self.bytes -= slot.length as usize;
        }
        if length <= self.max_bytes || entry.kind == Kind::End {
            self.keep(entry);
        } else {
            dropped(&entry.at(self.tail));
        }
        self.tail
    }

    /// The kept records from `seq` on, in order; found without a search.
    pub(super) fn since(&self, seq: u64) -> impl Iterator<Item = Record<'_>> {
        let oldest = self.oldest();
        let skip = usize::try_from(seq.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let from = skip.min(self.slots.len());
        self.slots
            .range(from..)
            .enumerate()
            .map(move |(offset, slot)| self.record(oldest + (from + offset) as u64, slot))
    }

    fn keep(&mut self, entry: &Entry<'_>) {
        self.make_room(entry.text.len());
        // Both casts are exact: bounds are checked to stay below 2^31, the offset wraps on purpose.
        let start = self.base.wrapping_add(self.arena.len() as u32);
        self.arena.push_str(entry.text);
        self.bytes += entry.text.len();
        self.slots.push_back(Slot {
            time_ns: entry.time_ns,
            start,
            length: entry.text.len() as u32,
            token_count: entry.token_count,
            choice: entry.choice,
            kind: entry.kind,
            branch: entry.branch,
        });
    }

    /// Makes the arena hold `length` more bytes, first from what dropped records left behind.
    ///
    /// Reclaiming waits until a third is dead: each byte is then moved at most twice in its life
    /// and the arena stays below 1.5 times the bound.
    fn make_room(&mut self, length: usize) {
        let dead = self.arena.len() - self.bytes;
        let wanted = self.arena.len() + length;
        if wanted <= self.arena.capacity() {
            return;
        }
        if dead * 3 >= self.arena.len() && dead > 0 {
            self.arena.drain(..dead);
            self.base = self.base.wrapping_add(dead as u32);
            return self.make_room(length);
        }
        let limit = self.max_bytes + self.max_bytes / 2;
        let target = (self.arena.capacity() * 2).max(64).min(limit).max(wanted);
        self.arena.reserve_exact(target - self.arena.len());
    }

    fn record(&self, seq: u64, slot: &Slot) -> Record<'_> {
        let start = slot.start.wrapping_sub(self.base) as usize;
        Record {
            seq,
            time_ns: slot.time_ns,
            kind: slot.kind,
            branch: slot.branch,
            choice: slot.choice,
            token_count: slot.token_count,
            text: &self.arena[start..start + slot.length as usize],
        }
    }
}

impl<'a> Entry<'a> {
    pub(super) const fn at(&self, seq: u64) -> Record<'a> {
        Record {
            seq,
            time_ns: self.time_ns,
            kind: self.kind,
            branch: self.branch,
            choice: self.choice,
            token_count: self.token_count,
            text: self.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(text: &str) -> Entry<'_> {
        Entry {
            time_ns: 7,
            kind: Kind::Token,
            branch: 0,
            choice: 0,
            token_count: 1,
            text,
        }
    }

    fn texts(store: &Store) -> Vec<(u64, String)> {
        store
            .since(0)
            .map(|record| (record.seq, record.text.to_owned()))
            .collect()
    }

    #[test]
    fn a_slot_takes_24_bytes() {
        assert_eq!(size_of::<Slot>(), 24);
    }

    #[test]
    fn drops_the_oldest_when_bytes_run_out() {
        let mut store = Store::new(5, 100);
        for text in ["ab", "cd", "e", "fg"] {
            store.push(&token(text), |_| ());
        }
        assert_eq!(store.oldest(), 2);
        assert_eq!(
            texts(&store),
            [(2, "cd".into()), (3, "e".into()), (4, "fg".into())]
        );
    }

    #[test]
    fn a_record_beyond_the_bound_is_dropped_at_once_and_leaves_its_seq() {
        let mut store = Store::new(4, 100);
        store.push(&token("ab"), |_| ());
        let mut dropped = Vec::new();
        assert_eq!(
            store.push(&token("abcde"), |record| dropped.push(record.seq)),
            2
        );
        assert_eq!(dropped, [1, 2]);
        assert_eq!((store.oldest(), store.tail(), store.bytes()), (3, 2, 0));
    }

    #[test]
    fn the_terminal_record_is_kept_whatever_the_bound() {
        let mut store = Store::new(1, 1);
        store.push(&token("a"), |_| ());
        let end = Entry {
            kind: Kind::End,
            ..token("completed")
        };
        store.push(&end, |_| ());
        assert_eq!(texts(&store), [(2, "completed".into())]);
    }

    #[test]
    fn text_offsets_survive_the_wrap_at_4_gib() {
        let mut store = Store::new(64, 1000);
        store.base = u32::MAX - 100;
        for turn in 0..200 {
            store.push(&token(&format!("<{turn}>")), |_| ());
        }
        let kept = texts(&store);
        assert_eq!(kept.last(), Some(&(200, "<199>".to_owned())));
        assert_eq!(
            kept[0],
            (store.oldest(), format!("<{}>", store.oldest() - 1))
        );
    }

    proptest! {
        #[test]
        fn keeps_the_longest_suffix_that_fits(
            pushed in prop::collection::vec("\\PC{0,9}", 0..120),
            max_bytes in 1usize..60,
            max_records in 1usize..20,
        ) {
            let mut store = Store::new(max_bytes, max_records);
            let mut gone = Vec::new();
            for text in &pushed {
                store.push(&token(text), |record| gone.push((record.seq, record.text.to_owned())));
            }
            let mut from = pushed.len();
            let mut bytes = 0;
            while from > 0
                && bytes + pushed[from - 1].len() <= max_bytes
                && pushed.len() - from < max_records
            {
                from -= 1;
                bytes += pushed[from].len();
            }
            let all: Vec<_> = (1u64..).zip(pushed).collect();
            prop_assert_eq!(&gone[..], &all[..from]);
            prop_assert_eq!(&texts(&store)[..], &all[from..]);
            prop_assert_eq!(store.bytes(), bytes);
            prop_assert!(store.arena.capacity() <= 64.max(max_bytes + max_bytes / 2 + 36));
        }
    }
}
