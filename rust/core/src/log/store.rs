//! What a log keeps: the newest records, and the text of those before them while it fits.

use super::fold::Folds;
use super::records::Records;
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

impl<'a> Entry<'a> {
    pub(super) const fn of(record: &Record<'a>) -> Self {
        Self {
            time_ns: record.time_ns,
            kind: record.kind,
            branch: record.branch,
            choice: record.choice,
            token_count: record.token_count,
            text: record.text,
        }
    }

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

/// The text of one choice so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSoFar {
    /// The branch.
    pub branch: u8,
    /// The choice of the branch.
    pub choice: u16,
    /// Bytes of its beginning that are no longer kept.
    pub omitted_bytes: u64,
    /// All that follows them.
    pub text: String,
}

#[derive(Debug)]
pub(super) struct Store {
    records: Records,
    folds: Folds,
    max_bytes: usize,
    max_records: usize,
}

impl Store {
    pub(super) fn new(max_bytes: usize, max_records: usize, first_seq: u64) -> Self {
        Self {
            records: Records::starting(first_seq),
            folds: Folds::default(),
            max_bytes,
            max_records,
        }
    }

    /// Begins anew at `first_seq`.
    pub(super) fn restart(&mut self, first_seq: u64) {
        *self = Self::new(self.max_bytes, self.max_records, first_seq);
    }

    /// The last seq written, 0 before the first.
    pub(super) const fn tail(&self) -> u64 {
        self.records.tail()
    }

    /// The smallest seq still kept, `tail + 1` if nothing is.
    pub(super) fn oldest(&self) -> u64 {
        self.records.oldest()
    }

    /// Whether no record was ever written.
    pub(super) const fn untouched(&self) -> bool {
        self.records.untouched()
    }

    /// Bytes of text kept, in records and folded.
    pub(super) const fn bytes(&self) -> usize {
        self.records.bytes() + self.folds.bytes()
    }

    /// Bytes of heap that the store holds.
    pub(super) fn heap_bytes(&self) -> usize {
        self.records.heap_bytes() + self.folds.heap_bytes()
    }

    /// The kept records from `seq` on, in order.
    pub(super) fn since(&self, seq: u64) -> impl DoubleEndedIterator<Item = Record<'_>> {
        self.records.since(seq)
    }

    /// Appends, drops what no longer fits (each such record is shown to `dropped`) and returns the seq.
    ///
    /// Records give way to a full index and leave their text folded; folded text, and then the
    /// oldest records, give way to bytes. A record larger than the whole bound is dropped at once,
    /// so that readers are told of a gap rather than left with a text that looks whole. The
    /// terminal record is always kept.
    pub(super) fn push(&mut self, entry: &Entry<'_>, mut dropped: impl FnMut(&Record<'_>)) -> u64 {
        if self.records.len() >= self.max_records {
            self.drop_oldest(true, &mut dropped);
        }
        let length = entry.text.len();
        if self.lacks(length) > 0 {
            self.folds.cut(self.lacks(length));
        }
        while self.lacks(length) > 0 && self.records.len() > 0 {
            // Nothing is folded any more, so this text is the oldest.
            self.drop_oldest(false, &mut dropped);
        }
        if length <= self.max_bytes || entry.kind == Kind::End {
            self.records.push(entry, self.max_bytes);
        } else {
            self.records.skip();
            let record = entry.at(self.tail());
            omit(&mut self.folds, &record);
            dropped(&record);
        }
        self.tail()
    }

    /// Notes text before the first record that was never here.
    pub(super) fn omit_text(&mut self, branch: u8, choice: u16, bytes: u64) {
        self.folds.omit(branch, choice, bytes);
    }

    /// Bytes gone from the beginning of a choice, and its text after them up to record `until`.
    pub(super) fn text(&self, branch: u8, choice: u16, until: u64) -> (u64, String) {
        let (omitted, folded) = self.folds.get(branch, choice);
        let records = self.since(0).take_while(|record| record.seq <= until);
        let texts = records
            .filter(|it| it.kind == Kind::Token && (it.branch, it.choice) == (branch, choice))
            .map(|record| record.text);
        (omitted, std::iter::once(folded).chain(texts).collect())
    }

    /// The text of every choice that has any, in order of branch and choice.
    pub(super) fn texts(&self) -> Vec<TextSoFar> {
        let folded = self
            .folds
            .each()
            .map(|(branch, choice, omitted_bytes, text)| TextSoFar {
                branch,
                choice,
                omitted_bytes,
                text: text.to_owned(),
            });
        let mut texts: Vec<_> = folded.collect();
        let tokens = self.since(0).filter(|record| record.kind == Kind::Token);
        for record in tokens.filter(|record| !record.text.is_empty()) {
            text_mut(&mut texts, &record).push_str(record.text);
        }
        texts
    }

    /// How many bytes are missing for a text of `length`.
    const fn lacks(&self, length: usize) -> usize {
        (self.bytes() + length).saturating_sub(self.max_bytes)
    }

    fn drop_oldest(&mut self, fold: bool, dropped: &mut impl FnMut(&Record<'_>)) {
        if let Some(record) = self.records.front() {
            match record.kind {
                Kind::Token if fold => self.folds.keep(record.branch, record.choice, record.text),
                _ => omit(&mut self.folds, &record),
            }
            dropped(&record);
        }
        self.records.pop_front();
    }
}

fn omit(folds: &mut Folds, record: &Record<'_>) {
    if record.kind == Kind::Token {
        folds.omit(record.branch, record.choice, record.text.len() as u64);
    }
}

fn text_mut<'a>(texts: &'a mut Vec<TextSoFar>, record: &Record<'_>) -> &'a mut String {
    let key = (record.branch, record.choice);
    let found = texts.binary_search_by_key(&key, |it| (it.branch, it.choice));
    let at = found.unwrap_or_else(|at| {
        let text = TextSoFar {
            branch: record.branch,
            choice: record.choice,
            omitted_bytes: 0,
            text: String::new(),
        };
        texts.insert(at, text);
        at
    });
    &mut texts[at].text
}

#[cfg(test)]
mod tests;
