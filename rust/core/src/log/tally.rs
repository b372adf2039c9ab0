//! What a log knows about its stream without reading it, whether or not the records are still kept.

use super::latency::InterToken;
use super::store::Entry;
use crate::record::Kind;

#[derive(Debug)]
struct Choice {
    choice: u16,
    // The last record that stood for at least one token.
    token_ns: Option<u64>,
    finish_reason: Option<Box<str>>,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) token_count: u64,
    pub(super) first_token_ns: Option<u64>,
    pub(super) last_token_ns: Option<u64>,
    pub(super) inter_token: InterToken,
    pub(super) usage: Option<Box<str>>,
    pub(super) error: Option<Box<str>>,
    pub(super) outcome: Option<Box<str>>,
    choices: Vec<Choice>,
}

impl Tally {
    pub(super) fn add(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            Kind::Token => self.add_token(entry),
            Kind::Finish => {
                self.choice_mut(entry.choice).finish_reason = Some(entry.text.into());
            }
            Kind::Usage => self.usage = Some(entry.text.into()),
            Kind::Error => self.error = Some(entry.text.into()),
            Kind::End => self.outcome = Some(entry.text.into()),
            Kind::Handover | Kind::BranchEnd => {}
        }
    }

    pub(super) fn finish_reason(&self, choice: u16) -> Option<&str> {
        let found = self.choices.iter().find(|held| held.choice == choice)?;
        found.finish_reason.as_deref()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.choices.capacity() * size_of::<Choice>()
    }

    fn add_token(&mut self, entry: &Entry<'_>) {
        self.token_count += u64::from(entry.token_count);
        self.first_token_ns.get_or_insert(entry.time_ns);
        self.last_token_ns = Some(entry.time_ns);
        if entry.token_count == 0 {
            return;
        }
        let before = self
            .choice_mut(entry.choice)
            .token_ns
            .replace(entry.time_ns);
        if let Some(before) = before {
            // Wall clocks step back now and then: such a gap counts as none.
            let gap_ns = entry.time_ns.saturating_sub(before);
            self.inter_token.observe(gap_ns, entry.token_count);
        }
    }

    /// Choices come in order at first, so that a choice mostly lies at its own number.
    fn choice_mut(&mut self, choice: u16) -> &mut Choice {
        let near = usize::from(choice);
        let at = match self.choices.get(near) {
            Some(held) if held.choice == choice => Some(near),
            _ => self.choices.iter().position(|held| held.choice == choice),
        };
        let at = at.unwrap_or_else(|| {
            self.choices.reserve_exact(1);
            self.choices.push(Choice {
                choice,
                token_ns: None,
                finish_reason: None,
            });
            self.choices.len() - 1
        });
        &mut self.choices[at]
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
        let mut tally = Tally::default();
        for (choice, at) in [(1, 0), (0, 1), (1, 20_000_000), (0, 20_000_001)] {
            tally.add(&token(choice, at, 1));
        }
        assert_eq!(tally.inter_token.counts.iter().sum::<u32>(), 2);
        assert_eq!(tally.inter_token.counts[4], 2);
        assert_eq!(tally.inter_token.sum_ns, 40_000_000);
    }

    #[test]
    fn text_without_tokens_moves_the_last_token_time_but_no_histogram() {
        let mut tally = Tally::default();
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
        let mut tally = Tally::default();
        tally.add(&token(0, 10, 1));
        tally.add(&token(0, 4, 1));
        assert_eq!(
            (tally.inter_token.counts[0], tally.inter_token.sum_ns),
            (1, 0)
        );
    }

    #[test]
    fn finish_reasons_are_kept_by_choice() {
        let mut tally = Tally::default();
        for (choice, text) in [(7, "length"), (0, "stop")] {
            tally.add(&Entry {
                kind: Kind::Finish,
                text,
                ..token(choice, 1, 0)
            });
        }
        let reasons = [7, 0, 1].map(|choice| tally.finish_reason(choice));
        assert_eq!(reasons, [Some("length"), Some("stop"), None]);
    }
}
