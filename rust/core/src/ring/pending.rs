use std::collections::{HashMap, VecDeque};

use super::layout::RingRecord;
use crate::record::Kind;

/// A record that found no room, with a text of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingRecord {
    stream: u64,
    time_ns: u64,
    kind: Kind,
    choice: u16,
    token_count: u32,
    text: String,
}

impl PendingRecord {
    pub(crate) fn record(&self) -> RingRecord<'_> {
        RingRecord {
            stream: self.stream,
            time_ns: self.time_ns,
            kind: self.kind,
            choice: self.choice,
            token_count: self.token_count,
            text: &self.text,
        }
    }
}

/// Records that wait for room, in order; token text that follows on waiting token text of the
/// same stream and choice joins it and keeps the earlier time.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    queue: VecDeque<PendingRecord>,
    /// How many records have ever left the front: makes the places below stay valid.
    taken: usize,
    /// Per stream, for each choice the place of the token record that can still grow.
    open: HashMap<u64, Vec<(u16, usize)>>,
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a record at the end, or to the token record that it continues.
    pub(crate) fn add(&mut self, record: &RingRecord<'_>, max_text_bytes: usize) {
        if record.kind == Kind::Token && self.merge(record, max_text_bytes) {
            return;
        }
        let place = self.taken + self.queue.len();
        self.queue.push_back(PendingRecord {
            stream: record.stream,
            time_ns: record.time_ns,
            kind: record.kind,
            choice: record.choice,
            token_count: record.token_count,
            text: record.text.to_owned(),
        });
        self.track(record, place);
    }

    /// The record whose turn it is.
    pub(crate) fn front(&self) -> Option<&PendingRecord> {
        self.queue.front()
    }

    /// Takes the front record away.
    pub(crate) fn pop(&mut self) {
        let Some(record) = self.queue.pop_front() else {
            return;
        };
        let place = self.taken;
        self.taken += 1;
        if let Some(choices) = self.open.get_mut(&record.stream) {
            choices.retain(|&(_, open)| open != place);
            if choices.is_empty() {
                self.open.remove(&record.stream);
            }
        }
    }

    /// Drops everything of one stream.
    pub(crate) fn discard(&mut self, stream: u64) {
        self.queue.retain(|record| record.stream != stream);
        self.open.clear();
        let records: Vec<_> = self
            .queue
            .iter()
            .enumerate()
            .map(|(index, record)| {
                (
                    record.stream,
                    record.kind,
                    record.choice,
                    self.taken + index,
                )
            })
            .collect();
        for (stream, kind, choice, place) in records {
            self.set_open(stream, kind, choice, place);
        }
    }

    fn merge(&mut self, record: &RingRecord<'_>, max_text_bytes: usize) -> bool {
        let place = self
            .open
            .get(&record.stream)
            .and_then(|choices| choices.iter().find(|(choice, _)| *choice == record.choice));
        let Some(waiting) = place.and_then(|&(_, at)| self.queue.get_mut(at - self.taken)) else {
            return false;
        };
        let count = waiting.token_count.checked_add(record.token_count);
        let (Some(count), true) = (
            count,
            waiting.text.len() + record.text.len() <= max_text_bytes,
        ) else {
            return false;
        };
        waiting.text.push_str(record.text);
        waiting.token_count = count;
        true
    }

    fn track(&mut self, record: &RingRecord<'_>, place: usize) {
        self.set_open(record.stream, record.kind, record.choice, place);
    }

    /// A token record can grow until its choice finishes; the stream's last word ends them all.
    fn set_open(&mut self, stream: u64, kind: Kind, choice: u16, place: usize) {
        match kind {
            Kind::Token => {
                let choices = self.open.entry(stream).or_default();
                choices.retain(|&(other, _)| other != choice);
                choices.push((choice, place));
            }
            Kind::Finish => {
                if let Some(choices) = self.open.get_mut(&stream) {
                    choices.retain(|&(other, _)| other != choice);
                }
            }
            Kind::Usage | Kind::Error | Kind::End | Kind::Handover | Kind::BranchEnd => {
                self.open.remove(&stream);
            }
        }
    }
}
