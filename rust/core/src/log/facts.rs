//! What a log tells about its stream.

use super::error::LogError;
use super::integrity::{Integrity, Leaf};
use super::latency::InterToken;
use super::progress::Checks;
use super::shared::Log;
use super::store::TextSoFar;
use super::terminal::Terminal;
use crate::record::Kind;

impl<W> Log<W> {
    /// Whether the terminal record was written.
    pub fn closed(&self) -> bool {
        self.state.lock().closed()
    }

    /// The last seq written, 0 before the first.
    pub fn tail(&self) -> u64 {
        self.state.lock().store.tail()
    }

    /// The smallest seq still kept, `tail + 1` if nothing is.
    pub fn oldest(&self) -> u64 {
        self.state.lock().store.oldest()
    }

    /// Bytes of text kept, in records and folded.
    pub fn bytes(&self) -> usize {
        self.state.lock().store.bytes()
    }

    /// Bytes of memory that the log takes, its own size included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.state.lock().heap_bytes()
    }

    /// Requests that share the stream.
    pub fn branches(&self) -> usize {
        self.state.lock().tally.branches()
    }

    /// Refuses a branch that the stream does not have.
    ///
    /// # Errors
    /// `Branch`.
    pub fn check_branch(&self, branch: u8) -> Result<(), LogError> {
        self.state.lock().check_branch(branch)
    }

    /// Tokens that all token records stand for, dropped ones included.
    pub fn token_count(&self) -> u64 {
        self.state.lock().tally.token_count()
    }

    /// The same of one branch.
    pub fn token_count_of(&self, branch: u8) -> u64 {
        self.state.lock().tally.branch(branch).token_count
    }

    /// Wall time of the first token record in unix nanoseconds.
    pub fn first_token_ns(&self) -> Option<u64> {
        self.state.lock().tally.first_token_ns()
    }

    /// The same of one branch.
    pub fn first_token_ns_of(&self, branch: u8) -> Option<u64> {
        self.state.lock().tally.branch(branch).first_token_ns
    }

    /// Wall time of the last token record in unix nanoseconds.
    pub fn last_token_ns(&self) -> Option<u64> {
        self.state.lock().tally.last_token_ns()
    }

    /// The same of one branch.
    pub fn last_token_ns_of(&self, branch: u8) -> Option<u64> {
        self.state.lock().tally.branch(branch).last_token_ns
    }

    /// Times between the tokens of a choice of one branch.
    pub fn inter_token_of(&self, branch: u8) -> InterToken {
        self.state.lock().tally.branch(branch).inter_token
    }

    /// The finish reason of a choice.
    pub fn finish_reason(&self, branch: u8, choice: u16) -> Option<String> {
        let state = self.state.lock();
        let held = state.tally.branch(branch).choice(choice)?;
        held.finish_reason.as_deref().map(str::to_owned)
    }

    /// The usage record of a branch as JSON.
    pub fn usage_of(&self, branch: u8) -> Option<String> {
        let state = self.state.lock();
        owned(state.tally.branch(branch).usage.as_deref())
    }

    /// The error record of a branch as JSON.
    pub fn error_of(&self, branch: u8) -> Option<String> {
        let state = self.state.lock();
        owned(state.tally.branch(branch).error.as_deref())
    }

    /// The error record written last as JSON, whichever branch it ended.
    pub fn error(&self) -> Option<String> {
        owned(self.state.lock().tally.error())
    }

    /// How a branch of several ended.
    pub fn outcome_of(&self, branch: u8) -> Option<String> {
        let state = self.state.lock();
        owned(state.tally.branch(branch).outcome.as_deref())
    }

    /// How the stream ended.
    pub fn outcome(&self) -> Option<String> {
        let state = self.state.lock();
        let end = state.tally.end.as_deref()?;
        Some(Terminal::parse(end).outcome.to_owned())
    }

    /// What the stream was charged in the end, as JSON; none if nobody could say.
    pub fn settlement(&self) -> Option<String> {
        let state = self.state.lock();
        let end = state.tally.end.as_deref()?;
        owned(Terminal::parse(end).settlement)
    }

    /// The whole text of a choice, whether or not its records are still kept.
    ///
    /// # Errors
    /// `Omitted` if its beginning is gone.
    pub fn text(&self, branch: u8, choice: u16) -> Result<String, LogError> {
        match self.state.lock().store.text(branch, choice, u64::MAX) {
            (0, text) => Ok(text),
            (omitted_bytes, _) => Err(LogError::Omitted { omitted_bytes }),
        }
    }

    /// The text so far of every choice that has any, in order of branch and choice.
    pub fn snapshot(&self) -> Vec<TextSoFar> {
        let state = self.state.lock();
        state.store.texts()
    }

    /// The seq of the newest token record that is kept.
    pub fn last_token_seq(&self) -> Option<u64> {
        let state = self.state.lock();
        let mut newest_first = state.store.since(0).rev();
        let token = newest_first.find(|record| record.kind == Kind::Token)?;
        Some(token.seq)
    }

    /// The checks over the text so far; none if the log makes none.
    pub fn checks(&self) -> Option<Checks> {
        self.state.lock().integrity().map(Integrity::checks)
    }

    /// The finished leaves that end after `seq` and whose last record is still kept.
    pub fn leaves_after(&self, seq: u64) -> Vec<Leaf> {
        let state = self.state.lock();
        let leaves = state.integrity();
        leaves.map_or_else(Vec::new, |it| it.leaves_after(seq).copied().collect())
    }

    /// The seq of the last leaf that ends at or before `seq`, from which a reader can go on; 0 if
    /// there is none.
    pub fn last_leaf_before(&self, seq: u64) -> u64 {
        let state = self.state.lock();
        let oldest = state.store.oldest();
        let checks = state.integrity();
        checks.map_or(0, |it| it.last_leaf_before(seq, oldest))
    }

    /// The CRC-32 over the text up to `seq`, to compare with a resuming client's in one step.
    ///
    /// None if the log makes no checks, if `seq` was never written or lies before what is kept.
    pub fn crc_at(&self, seq: u64) -> Option<u32> {
        let state = self.state.lock();
        let integrity = state.integrity()?;
        let kept = state.store.oldest() - 1..=state.store.tail();
        kept.contains(&seq)
            .then(|| integrity.crc_at(seq, &state.store))
    }
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}
