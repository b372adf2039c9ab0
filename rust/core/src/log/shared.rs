use super::error::LogError;
use super::options::LogOptions;
use super::state::State;
use super::store::Entry;
use super::sync::Mutex;
use super::terminal::Terminal;
use crate::record::Kind;

/// The log of one stream; `W` is whatever wakes a reader.
///
/// No call blocks longer than another call works, and none runs foreign code under the lock but
/// the closure given to `read`. Woken waiters are handed back, never called.
#[derive(Debug)]
pub struct Log<W> {
    pub(super) state: Mutex<State<W>>,
}

impl<W> Log<W> {
    /// An empty log; nothing is allocated before the first record but tallies of further branches.
    ///
    /// # Errors
    /// `Bound` if a number is zero or too large.
    pub fn new(options: &LogOptions) -> Result<Self, LogError> {
        options.check()?;
        Ok(Self {
            state: Mutex::new(State::new(options)),
        })
    }

    /// Appends a record, moves every parked waiter to `woken` and returns the record's seq.
    ///
    /// # Errors
    /// `Closed` after `close`; `EndByAppend` for a terminal record; `Branch` for an unknown one.
    pub fn append(&self, entry: &Entry<'_>, woken: &mut Vec<W>) -> Result<u64, LogError> {
        if entry.kind == Kind::End {
            return Err(LogError::EndByAppend);
        }
        let mut state = self.state.lock();
        if state.closed() {
            return Err(LogError::Closed);
        }
        state.check_branch(entry.branch)?;
        let seq = state.append(entry);
        state.waiters.wake_all(woken);
        Ok(seq)
    }

    /// Writes the terminal record; false if the stream has its outcome already.
    ///
    /// # Errors
    /// `Outcome`, `Settlement` for what cannot be told; nothing is written then.
    pub fn close(
        &self,
        terminal: Terminal<'_>,
        time_ns: u64,
        woken: &mut Vec<W>,
    ) -> Result<bool, LogError> {
        terminal.check()?;
        let text = terminal.text();
        let mut state = self.state.lock();
        if state.closed() {
            return Ok(false);
        }
        let end = Entry {
            time_ns,
            kind: Kind::End,
            branch: 0,
            choice: 0,
            token_count: 0,
            text: &text,
        };
        state.append(&end);
        state.waiters.wake_all(woken);
        Ok(true)
    }
}
