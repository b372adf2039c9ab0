//! Bytes to events, as the WHATWG's event stream interpretation has it, at any split.

mod block;
mod event;
mod lines;

pub use event::Event;

use block::Block;
use lines::Lines;
use thiserror::Error;

/// An event is larger than its parser allows; the parser takes nothing more.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("an event is larger than {max_event_bytes} bytes")]
pub struct EventTooLarge {
    /// The limit that was passed.
    pub max_event_bytes: usize,
}

/// An incremental parser of one event stream; its work is linear in the bytes fed.
#[derive(Clone, Debug)]
pub struct Parser {
    max_event_bytes: usize,
    lines: Lines,
    block: Block,
    too_large: bool,
}

impl Parser {
    /// A parser at the start of a stream.
    ///
    /// `max_event_bytes` bounds the lines of one event without their ends; comments do not count
    /// towards it, but each must fit by itself.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            lines: Lines::default(),
            block: Block::default(),
            too_large: false,
        }
    }

    /// Takes the next bytes and appends the events that they complete.
    ///
    /// # Errors
    /// [`EventTooLarge`] once the limit is passed, and at every call after that. Events that were
    /// complete before are in `events`.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), EventTooLarge> {
        self.check()?;
        let mut rest = bytes;
        while let Some(line) = self.lines.next(&mut rest) {
            if line.len() > self.block.allowance(line, self.max_event_bytes) {
                self.too_large = true;
                return self.check();
            }
            events.extend(self.block.take_line(line));
        }
        let held = self.lines.held();
        self.too_large = held.len() > self.block.allowance(held, self.max_event_bytes);
        self.check()
    }

    /// Ends the stream: an event without its blank line is discarded.
    ///
    /// Says whether there was one. The parser is then at the start of the next connection of the
    /// same source, with the last event id and the retry time kept.
    ///
    /// # Errors
    /// [`EventTooLarge`] when the limit was passed before.
    pub fn finish(&mut self) -> Result<bool, EventTooLarge> {
        self.check()?;
        let held = self.lines.held();
        let pending = self.block.is_open() || !(held.is_empty() || held.starts_with(b":"));
        self.lines = Lines::default();
        self.block.discard();
        Ok(pending)
    }

    /// The id to send as `Last-Event-ID` on reconnection; empty if there is none.
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        self.block.last_event_id()
    }

    /// The latest reconnection time of the stream, in milliseconds.
    #[must_use]
    pub const fn retry_ms(&self) -> Option<u64> {
        self.block.reconnection_ms()
    }

    const fn check(&self) -> Result<(), EventTooLarge> {
        if self.too_large {
            return Err(EventTooLarge {
                max_event_bytes: self.max_event_bytes,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
