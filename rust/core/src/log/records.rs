//! Records in one byte arena with an index by seq.

use std::collections::VecDeque;

use super::store::Entry;
use crate::record::{Kind, Record};

/// Where a record's text lies and everything else about it: 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Slot {
    time_ns: u64,
    // Offset in the endless text of the stream, modulo 2^32; the arena starts at `Records::base`.
    start: u32,
    length: u32,
    token_count: u32,
    choice: u16,
    kind: Kind,
    branch: u8,
}

/// The records kept, in order and without gaps, the newest with seq `tail`.
#[derive(Debug)]
pub(super) struct Records {
    arena: String,
    slots: VecDeque<Slot>,
    base: u32,
    bytes: usize,
    tail: u64,
    untouched: bool,
}

impl Records {
    /// No record yet; the next one gets the seq `first_seq`.
    pub(super) const fn starting(first_seq: u64) -> Self {
        Self {
            arena: String::new(),
            slots: VecDeque::new(),
            base: 0,
            bytes: 0,
            tail: first_seq - 1,
            untouched: true,
        }
    }

    /// The last seq given, 0 before the first.
    pub(super) const fn tail(&self) -> u64 {
        self.tail
    }

    /// The smallest seq still kept, `tail + 1` if nothing is.
    pub(super) fn oldest(&self) -> u64 {
        self.tail + 1 - self.slots.len() as u64
    }

    /// Whether no seq was given out yet.
    pub(super) const fn untouched(&self) -> bool {
        self.untouched
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of text.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.arena.capacity() + self.slots.capacity() * size_of::<Slot>()
    }

    /// The records from `seq` on, in order; found without a search.
    pub(super) fn since(&self, seq: u64) -> impl Iterator<Item = Record<'_>> {
        let oldest = self.oldest();
        let skip = usize::try_from(seq.saturating_sub(oldest)).unwrap_or(usize::MAX);
        let from = skip.min(self.slots.len());
        self.slots
            .range(from..)
            .enumerate()
            .map(move |(offset, slot)| self.record(oldest + (from + offset) as u64, slot))
    }

    /// The oldest record.
    pub(super) fn front(&self) -> Option<Record<'_>> {
        let slot = self.slots.front()?;
        Some(self.record(self.oldest(), slot))
    }

    /// Drops the oldest record.
    pub(super) fn pop_front(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            self.bytes -= slot.length as usize;
        }
    }

    /// Gives the next seq away without a record; only when there are none.
    pub(super) const fn skip(&mut self) {
        self.tail += 1;
        self.untouched = false;
    }

    /// Adds a record; `max_bytes` is what all texts together will take at most.
    pub(super) fn push(&mut self, entry: &Entry<'_>, max_bytes: usize) {
        self.make_room(entry.text.len(), max_bytes);
        // Both casts are exact: bounds are checked to stay below 2^31, the offset wraps on purpose.
        let start = self.base.wrapping_add(self.arena.len() as u32);
        self.arena.push_str(entry.text);
        self.bytes += entry.text.len();
        self.tail += 1;
        self.untouched = false;
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
    fn make_room(&mut self, length: usize, max_bytes: usize) {
        let dead = self.arena.len() - self.bytes;
        let wanted = self.arena.len() + length;
        if wanted <= self.arena.capacity() {
            return;
        }
        if dead * 3 >= self.arena.len() && dead > 0 {
            self.arena.drain(..dead);
            self.base = self.base.wrapping_add(dead as u32);
            return self.make_room(length, max_bytes);
        }
        let limit = max_bytes + max_bytes / 2;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_takes_24_bytes() {
        assert_eq!(size_of::<Slot>(), 24);
    }

    #[test]
    fn text_offsets_survive_the_wrap_at_4_gib() {
        let mut records = Records::starting(1);
        records.base = u32::MAX - 100;
        for turn in 0..200 {
            let text = format!("<{turn}>");
            let entry = Entry {
                time_ns: 7,
                kind: Kind::Token,
                branch: 0,
                choice: 0,
                token_count: 1,
                text: &text,
            };
            while records.bytes() + text.len() > 64 {
                records.pop_front();
            }
            records.push(&entry, 64);
        }
        let kept: Vec<_> = records.since(0).map(|it| (it.seq, it.text)).collect();
        assert_eq!(kept.last(), Some(&(200, "<199>")));
        assert_eq!(kept[0].0, records.oldest());
        assert_eq!(kept[0].1, format!("<{}>", records.oldest() - 1));
        assert!(records.base < u32::MAX - 100, "it has wrapped");
    }
}
