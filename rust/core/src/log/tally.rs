//! What a log knows about its stream without reading it, whether or not the records are still kept.

use super::branch::BranchTally;
use super::store::Entry;
use crate::record::Kind;

static NOTHING: BranchTally = BranchTally::EMPTY;

/// The tallies of all branches; the usual stream has one and needs no heap for it.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    first: BranchTally,
    others: Box<[BranchTally]>,
    /// The text of the terminal record.
    pub(super) end: Option<Box<str>>,
    // The branch whose error came last.
    failed: u8,
}

impl Tally {
    pub(super) fn new(branches: usize) -> Self {
        Self {
            first: BranchTally::EMPTY,
            others: vec![BranchTally::EMPTY; branches - 1].into(),
            end: None,
            failed: 0,
        }
    }

    pub(super) const fn branches(&self) -> usize {
        self.others.len() + 1
    }

    pub(super) fn add(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            Kind::End => self.end = Some(entry.text.into()),
            Kind::Error => self.failed = entry.branch,
            _ => {}
        }
        if let Some(branch) = self.branch_mut(entry.branch) {
            branch.add(entry);
        }
    }

    /// The tally of a branch; an empty one if the stream has no such branch.
    pub(super) fn branch(&self, branch: u8) -> &BranchTally {
        match branch.checked_sub(1) {
            None => &self.first,
            Some(at) => self.others.get(usize::from(at)).unwrap_or(&NOTHING),
        }
    }

    pub(super) fn branch_mut(&mut self, branch: u8) -> Option<&mut BranchTally> {
        match branch.checked_sub(1) {
            None => Some(&mut self.first),
            Some(at) => self.others.get_mut(usize::from(at)),
        }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &BranchTally> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The branch whose error was written last.
    pub(super) fn failed(&self) -> Option<u8> {
        self.error().map(|_| self.failed)
    }

    pub(super) const fn set_failed(&mut self, branch: u8) {
        self.failed = branch;
    }

    /// The error that was written last, whichever branch it ended.
    pub(super) fn error(&self) -> Option<&str> {
        self.branch(self.failed).error.as_deref()
    }

    pub(super) fn token_count(&self) -> u64 {
        self.each()
            .fold(0, |sum, branch| sum.saturating_add(branch.token_count))
    }

    pub(super) fn first_token_ns(&self) -> Option<u64> {
        self.each().filter_map(|branch| branch.first_token_ns).min()
    }

    pub(super) fn last_token_ns(&self) -> Option<u64> {
        self.each().filter_map(|branch| branch.last_token_ns).max()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.others.len() * size_of::<BranchTally>()
            + self.each().map(BranchTally::heap_bytes).sum::<usize>()
            + self.end.as_ref().map_or(0, |end| end.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Kind, branch: u8, text: &str) -> Entry<'_> {
        Entry {
            time_ns: 10 - u64::from(branch),
            kind,
            branch,
            choice: 0,
            token_count: 1,
            text,
        }
    }

    #[test]
    fn branches_are_told_apart_and_summed() {
        let mut tally = Tally::new(3);
        for branch in [0, 2, 2] {
            tally.add(&entry(Kind::Token, branch, "ab"));
        }
        assert_eq!([0, 1, 2].map(|it| tally.branch(it).token_count), [1, 0, 2]);
        assert_eq!(tally.token_count(), 3);
        assert_eq!(
            (tally.first_token_ns(), tally.last_token_ns()),
            (Some(8), Some(10))
        );
    }

    #[test]
    fn the_error_of_the_stream_is_the_last_one() {
        let mut tally = Tally::new(2);
        assert_eq!(tally.error(), None);
        tally.add(&entry(Kind::Error, 1, "one"));
        tally.add(&entry(Kind::Error, 0, "zero"));
        tally.add(&entry(Kind::BranchEnd, 1, "upstream_error"));
        assert_eq!(tally.error(), Some("zero"));
        assert_eq!(tally.branch(1).error.as_deref(), Some("one"));
        assert_eq!(tally.branch(1).outcome.as_deref(), Some("upstream_error"));
        assert_eq!(tally.end, None);
    }

    #[test]
    fn an_unknown_branch_is_empty() {
        let tally = Tally::new(1);
        assert_eq!(tally.branch(255).token_count, 0);
    }
}
