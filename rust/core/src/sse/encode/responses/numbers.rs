//! Sequence numbers of events, the same for every reader wherever it joins.

use super::PRELUDE_EVENTS;
use crate::record::{Kind, Record};

/// Events of a finish record.
const FINISH_EVENTS: u64 = 3;

/// Counts events by their records: until the text is finished, one event a record.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// The last record seen; none by a reader that joins later.
    seq: Option<u64>,
    /// The number of the next event, once records and events no longer go side by side.
    next: Option<u64>,
}

impl Numbers {
    pub(super) const fn new() -> Self {
        Self {
            seq: Some(0),
            next: None,
        }
    }

    pub(super) const fn resume(&mut self) {
        self.seq = None;
    }

    /// The number of the first event of the next record.
    ///
    /// A reader that meets a record beyond the text without having seen its finish takes it to have
    /// come: then the numbers of its events are the right ones or above them, never those of others.
    pub(super) fn first_of(&mut self, record: &Record<'_>) -> u64 {
        let follows = self.seq.and_then(|seq| seq.checked_add(1)) == Some(record.seq);
        self.seq = Some(record.seq);
        let aligned = record.seq.saturating_add(PRELUDE_EVENTS - 1);
        match record.kind {
            Kind::Token | Kind::Finish => {}
            _ if !follows => {
                self.next
                    .get_or_insert(aligned.saturating_add(FINISH_EVENTS - 1));
            }
            Kind::Error | Kind::End => {}
            Kind::Usage | Kind::Handover | Kind::BranchEnd => {
                self.next.get_or_insert(aligned);
            }
        }
        self.next.unwrap_or(aligned)
    }

    /// Takes note of a finish record whose first event has this number.
    pub(super) const fn finish(&mut self, number: u64) {
        self.next = Some(number.saturating_add(FINISH_EVENTS));
    }

    /// Takes note of one event.
    pub(super) const fn wrote_one(&mut self) {
        if let Some(next) = self.next {
            self.next = Some(next.saturating_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [Kind; 5] = [
        Kind::Token,
        Kind::Token,
        Kind::Finish,
        Kind::Usage,
        Kind::End,
    ];
    const BROKEN: [Kind; 3] = [Kind::Token, Kind::Error, Kind::End];
    const LEFT: [Kind; 3] = [Kind::Token, Kind::Handover, Kind::End];

    /// The numbers of the events that a reader of the records after `after` sees.
    fn numbers(kinds: &[Kind], after: u64) -> Vec<u64> {
        let mut numbers = Numbers::new();
        if after > 0 {
            numbers.resume();
        }
        let mut seen = Vec::new();
        for (seq, kind) in (1..).zip(kinds.iter().copied()).skip(after as usize) {
            let number = numbers.first_of(&Record {
                seq,
                time_ns: 0,
                kind,
                branch: 0,
                choice: 0,
                token_count: 0,
                text: "",
            });
            match kind {
                Kind::Usage | Kind::Handover => {}
                Kind::Finish => {
                    seen.extend([number, number + 1, number + 2]);
                    numbers.finish(number);
                }
                _ => {
                    seen.push(number);
                    numbers.wrote_one();
                }
            }
        }
        seen
    }

    #[test]
    fn a_whole_stream_has_no_holes() {
        assert_eq!(numbers(&WHOLE, 0), [4, 5, 6, 7, 8, 9]);
        assert_eq!(numbers(&BROKEN, 0), [4, 5, 6]);
        assert_eq!(numbers(&LEFT, 0), [4, 5]);
    }

    #[test]
    fn a_reader_that_joins_later_sees_the_same_numbers() {
        for after in 1..=3 {
            let expected = &[4, 5, 6, 7, 8, 9][[0, 1, 2, 5][after]..];
            assert_eq!(numbers(&WHOLE, after as u64), expected, "after {after}");
        }
    }

    #[test]
    fn a_reader_that_cannot_know_never_repeats_a_number() {
        let cut = [Kind::Token, Kind::Finish, Kind::End];
        assert_eq!(numbers(&cut, 0), [4, 5, 6, 7, 8]);
        assert_eq!(numbers(&cut, 2), [8]);
        assert_eq!(numbers(&WHOLE, 4), [10]);
    }
}
