//! What was known of a stream before a batch, for a mirror that starts with it.

use super::BatchError;
use super::wire::{Wire, put, put_text, put_time};
use crate::log::branch::{BranchTally, Choice};
use crate::log::options::MAX_FIRST_SEQ;
use crate::log::tally::Tally;
use crate::record::{Kind, Record};

const FIRST_NS: u8 = 1;
const LAST_NS: u8 = 2;
const USAGE: u8 = 4;
const ERROR: u8 = 8;
const OUTCOME: u8 = 16;
const FAILED_LAST: u8 = 32;
const ALL: u8 = 63;

/// The tallies of the branches that had any, without the times between tokens: these are the
/// producer's to tell.
#[derive(Debug, Default)]
pub(in crate::log) struct Head {
    branches: Vec<(u8, BranchTally)>,
    failed: Option<u8>,
}

/// Writes what is known of each branch before the record `first`.
pub(super) fn write(out: &mut Vec<u8>, tally: &Tally, first: &Record<'_>) {
    let known = || (0..=u8::MAX).zip(tally.each()).filter(|it| is_known(it.1));
    put(out, known().count() as u64);
    for (number, branch) in known() {
        out.push(number);
        let failed_last = tally.failed() == Some(number);
        // A token of the branch tells a later time at once.
        let told = first.kind == Kind::Token && first.branch == number;
        let last_ns = branch.last_token_ns.filter(|_| !told);
        let times = [branch.first_token_ns, last_ns];
        write_branch(out, branch, times, failed_last, first.time_ns);
    }
}

fn write_branch(
    out: &mut Vec<u8>,
    branch: &BranchTally,
    times: [Option<u64>; 2],
    failed_last: bool,
    time_ns: u64,
) {
    let texts = [&branch.usage, &branch.error, &branch.outcome];
    let known = times
        .iter()
        .map(Option::is_some)
        .chain(texts.iter().map(|text| text.is_some()))
        .chain([failed_last]);
    let flags = (0..).zip(known).map(|(at, is)| u8::from(is) << at).sum();
    out.push(flags);
    put(out, branch.token_count);
    for time in times.into_iter().flatten() {
        put_time(out, time, time_ns);
    }
    for text in texts.into_iter().flatten() {
        put_text(out, text);
    }
    let choices = || branch.choices.iter().filter(|it| says_something(it));
    put(out, choices().count() as u64);
    choices().for_each(|choice| write_choice(out, choice));
}

fn is_known(branch: &BranchTally) -> bool {
    let texts = [&branch.usage, &branch.error, &branch.outcome];
    branch.first_token_ns.is_some()
        || branch.choices.iter().any(says_something)
        || texts.iter().any(|text| text.is_some())
}

const fn says_something(choice: &Choice) -> bool {
    choice.bytes > 0 || choice.finish_reason.is_some()
}

impl Head {
    pub(super) fn read(wire: &mut Wire<'_>, time_ns: u64) -> Result<Self, BatchError> {
        let count = wire.bounded(1 << 8)?;
        let mut head = Self::default();
        for _ in 0..count {
            let number = wire.byte()?;
            if head.branches.last().is_some_and(|last| last.0 >= number) {
                return Err(DISORDER);
            }
            let (flags, branch) = read_branch(wire, time_ns)?;
            if flags & FAILED_LAST != 0 {
                head.failed = Some(number);
            }
            head.branches.push((number, branch));
        }
        Ok(head)
    }

    /// The highest branch that anything is known of.
    pub(in crate::log) fn last_branch(&self) -> Option<u8> {
        self.branches.last().map(|last| last.0)
    }

    /// `(branch, choice, bytes)` of every text.
    pub(in crate::log) fn texts(&self) -> impl Iterator<Item = (u8, u16, u64)> {
        self.branches.iter().flat_map(|(number, branch)| {
            let choices = branch.choices.iter();
            choices.map(|choice| (*number, choice.choice, choice.bytes))
        })
    }

    /// Makes these the tallies of a log without records.
    pub(in crate::log) fn restore(self, tally: &mut Tally) {
        for (number, branch) in self.branches {
            if let Some(here) = tally.branch_mut(number) {
                *here = branch;
            }
        }
        if let Some(failed) = self.failed {
            tally.set_failed(failed);
        }
    }
}

fn write_choice(out: &mut Vec<u8>, choice: &Choice) {
    put(out, choice.choice.into());
    let finished = choice.finish_reason.is_some();
    put(out, choice.bytes << 1 | u64::from(finished));
    if let Some(reason) = &choice.finish_reason {
        put_text(out, reason);
    }
}

fn read_branch(wire: &mut Wire<'_>, time_ns: u64) -> Result<(u8, BranchTally), BatchError> {
    let flags = wire.byte()?;
    if flags & !ALL != 0 {
        return Err(BatchError::Damaged("a branch of unknown form"));
    }
    let mut branch = BranchTally {
        token_count: wire.bounded(MAX_FIRST_SEQ)?,
        ..BranchTally::EMPTY
    };
    let has = |flag| flags & flag != 0;
    branch.first_token_ns = has(FIRST_NS).then(|| wire.time(time_ns)).transpose()?;
    branch.last_token_ns = has(LAST_NS).then(|| wire.time(time_ns)).transpose()?;
    branch.token_records = u64::from(has(FIRST_NS));
    branch.usage = text_if(has(USAGE), wire)?;
    branch.error = text_if(has(ERROR), wire)?;
    branch.outcome = text_if(has(OUTCOME), wire)?;
    let choices = wire.bounded(1 << 16)?;
    for _ in 0..choices {
        let choice = read_choice(wire)?;
        let last = branch.choices.last();
        if last.is_some_and(|last| last.choice >= choice.choice) {
            return Err(DISORDER);
        }
        branch.choices.push(choice);
    }
    Ok((flags, branch))
}

fn read_choice(wire: &mut Wire<'_>) -> Result<Choice, BatchError> {
    let mut choice = Choice::new(wire.choice()?);
    let bytes = wire.bounded(MAX_FIRST_SEQ << 1 | 1)?;
    choice.bytes = bytes >> 1;
    choice.finish_reason = text_if(bytes & 1 == 1, wire)?;
    Ok(choice)
}

fn text_if(present: bool, wire: &mut Wire<'_>) -> Result<Option<Box<str>>, BatchError> {
    present.then(|| wire.text().map(Into::into)).transpose()
}

const DISORDER: BatchError = BatchError::Damaged("branches or choices out of order");
