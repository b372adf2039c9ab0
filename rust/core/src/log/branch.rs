//! What a log knows about one of its branches.

use super::latency::InterToken;
use super::store::Entry;
use crate::record::Kind;

/// One choice of a branch.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) choice: u16,
    /// Bytes of its text, dropped ones included.
    pub(super) bytes: u64,
    // The last record that stood for at least one token.
    token_ns: Option<u64>,
    pub(super) finish_reason: Option<Box<str>>,
}

impl Choice {
    pub(super) const fn new(choice: u16) -> Self {
        Self {
            choice,
            bytes: 0,
            token_ns: None,
            finish_reason: None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct BranchTally {
    pub(super) token_count: u64,
    /// Token records; at least 1 if there were any before this log began.
    pub(super) token_records: u64,
    pub(super) first_token_ns: Option<u64>,
    pub(super) last_token_ns: Option<u64>,
    pub(super) inter_token: InterToken,
    pub(super) usage: Option<Box<str>>,
    pub(super) error: Option<Box<str>>,
    pub(super) outcome: Option<Box<str>>,
    // In the order of their numbers.
    pub(super) choices: Vec<Choice>,
}

impl BranchTally {
    pub(super) const EMPTY: Self = Self {
        token_count: 0,
        token_records: 0,
        first_token_ns: None,
        last_token_ns: None,
        inter_token: InterToken::NONE,
        usage: None,
        error: None,
        outcome: None,
        choices: Vec::new(),
    };

    pub(super) fn add(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            Kind::Token => self.add_token(entry),
            Kind::Finish => {
                self.choice_mut(entry.choice).finish_reason = Some(entry.text.into());
            }
            Kind::Usage => self.usage = Some(entry.text.into()),
            Kind::Error => self.error = Some(entry.text.into()),
            Kind::BranchEnd => self.outcome = Some(entry.text.into()),
            Kind::End | Kind::Handover => {}
        }
    }

    pub(super) fn choice(&self, choice: u16) -> Option<&Choice> {
        let at = self.choices.binary_search_by_key(&choice, |it| it.choice);
        at.ok().map(|at| &self.choices[at])
    }

    /// Choices mostly start with 0 and leave none out, so that a choice lies at its own number.
    pub(super) fn choice_mut(&mut self, choice: u16) -> &mut Choice {
        let near = usize::from(choice);
        if self
            .choices
            .get(near)
            .is_some_and(|held| held.choice == choice)
        {
            return &mut self.choices[near];
        }
        let found = self.choices.binary_search_by_key(&choice, |it| it.choice);
        let at = found.unwrap_or_else(|at| {
            if self.choices.is_empty() {
                self.choices.reserve_exact(1);
            }
            self.choices.insert(at, Choice::new(choice));
            at
        });
        &mut self.choices[at]
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let reasons = self.choices.iter().map(|held| &held.finish_reason);
        let texts = reasons.chain([&self.usage, &self.error, &self.outcome]);
        self.choices.capacity() * size_of::<Choice>()
            + texts.flatten().map(|text| text.len()).sum::<usize>()
    }

    fn add_token(&mut self, entry: &Entry<'_>) {
        self.token_count = self.token_count.saturating_add(entry.token_count.into());
        self.token_records += 1;
        self.first_token_ns.get_or_insert(entry.time_ns);
        self.last_token_ns = Some(entry.time_ns);
        let choice = self.choice_mut(entry.choice);
        choice.bytes += entry.text.len() as u64;
        if entry.token_count == 0 {
            return;
        }
        if let Some(before) = choice.token_ns.replace(entry.time_ns) {
            // Wall clocks step back now and then: such a gap counts as none.
            let gap_ns = entry.time_ns.saturating_sub(before);
            self.inter_token.observe(gap_ns, entry.token_count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(choice: u16, time_ns: u64, token_count: u32) -> Entry<'static> {
        Entry {
            time_ns,
            kind: Kind::Token,
            branch: 0,
            choice,
            token_count,
            text: "x",
        }
    }

    #[test]
    fn gaps_are_those_within_a_choice() {
        let mut tally = BranchTally::default();
        for (choice, at) in [(1, 0), (0, 1), (1, 20_000_000), (0, 20_000_001)] {
            tally.add(&token(choice, at, 1));
        }
        assert_eq!(tally.inter_token.counts.iter().sum::<u32>(), 2);
        assert_eq!(tally.inter_token.counts[4], 2);
        assert_eq!(tally.inter_token.sum_ns, 40_000_000);
    }

    #[test]
    fn text_without_tokens_moves_the_last_token_time_but_no_histogram() {
        let mut tally = BranchTally::default();
        tally.add(&token(0, 5, 1));
        tally.add(&token(0, 9, 0));
        tally.add(&token(0, 3_000_005, 1));
        assert_eq!(
            (tally.token_count, tally.last_token_ns),
            (2, Some(3_000_005))
        );
        assert_eq!(tally.inter_token.counts[2], 1);
    }

    #[test]
    fn a_clock_that_steps_back_counts_as_no_gap() {
        let mut tally = BranchTally::default();
        tally.add(&token(0, 10, 1));
        tally.add(&token(0, 4, 1));
        assert_eq!(
            (tally.inter_token.counts[0], tally.inter_token.sum_ns),
            (1, 0)
        );
    }

    #[test]
    fn choices_stay_in_order_whatever_comes_first() {
        let mut tally = BranchTally::default();
        for choice in [7, 0, 3, 0, 7] {
            tally.add(&token(choice, 1, 1));
        }
        for (choice, text) in [(7, "length"), (0, "stop")] {
            tally.add(&Entry {
                kind: Kind::Finish,
                text,
                ..token(choice, 1, 0)
            });
        }
        let held: Vec<_> = tally
            .choices
            .iter()
            .map(|held| (held.choice, held.bytes, held.finish_reason.as_deref()))
            .collect();
        assert_eq!(
            held,
            [(0, 2, Some("stop")), (3, 1, None), (7, 2, Some("length"))]
        );
        assert_eq!(tally.choice(7).map(|held| held.bytes), Some(2));
        assert!(tally.choice(1).is_none());
    }
}
