//! What the terminal record says: how the stream ended, and what it was charged in the end.

use super::error::LogError;

/// The text of an END record: one word, then a space and a JSON object if the figures are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal<'a> {
    /// How the stream ended.
    pub outcome: &'a str,
    /// `{"charged":n,"reserved":n,"partial":bool,"remaining_tokens":n or null}`.
    pub settlement: Option<&'a str>,
}

impl<'a> Terminal<'a> {
    /// Takes the text of an END record apart; what has no figures behind it is all outcome.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        match text.split_once(' ') {
            Some((outcome, json)) if json.starts_with('{') && json.ends_with('}') => Self {
                outcome,
                settlement: Some(json),
            },
            _ => Self {
                outcome: text,
                settlement: None,
            },
        }
    }

    /// Refuses what would not come back from the record, or would break the frames it goes into.
    pub(super) fn check(&self) -> Result<(), LogError> {
        if self.outcome.contains(' ') {
            return Err(LogError::Outcome);
        }
        match self.settlement {
            Some(json) if !is_settlement(json) => Err(LogError::Settlement),
            _ => Ok(()),
        }
    }

    /// The text of the END record.
    pub(super) fn text(&self) -> String {
        match self.settlement {
            Some(json) => format!("{} {json}", self.outcome),
            None => self.outcome.to_owned(),
        }
    }
}

/// Whether this is the one compact form of the figures.
fn is_settlement(json: &str) -> bool {
    let members = json
        .strip_prefix("{\"charged\":")
        .and_then(after_number)
        .and_then(|rest| rest.strip_prefix(",\"reserved\":"))
        .and_then(after_number)
        .and_then(|rest| rest.strip_prefix(",\"partial\":"))
        .and_then(|rest| after_word(rest, &["true", "false"]))
        .and_then(|rest| rest.strip_prefix(",\"remaining_tokens\":"))
        .and_then(|rest| after_word(rest, &["null"]).or_else(|| after_number(rest)));
    members == Some("}")
}

fn after_number(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    let value: u64 = digits.parse().ok()?;
    // JSON has no leading zeros.
    (digits == value.to_string()).then_some(rest)
}

fn after_word<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    words.iter().find_map(|word| text.strip_prefix(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"charged":12,"reserved":40,"partial":true,"remaining_tokens":88}"#;

    fn settled(settlement: &str) -> Terminal<'_> {
        Terminal {
            outcome: "cancelled",
            settlement: Some(settlement),
        }
    }

    #[test]
    fn what_is_written_comes_back() {
        for settlement in [None, Some(JSON)] {
            let terminal = Terminal {
                outcome: "length",
                settlement,
            };
            assert_eq!(terminal.check(), Ok(()));
            assert_eq!(Terminal::parse(&terminal.text()), terminal);
        }
    }

    #[test]
    fn text_without_figures_is_all_outcome() {
        for text in ["", "completed", "two words", "x {", " }", "x{}"] {
            let terminal = Terminal::parse(text);
            assert_eq!((terminal.outcome, terminal.settlement), (text, None));
        }
    }

    #[test]
    fn figures_have_one_form() {
        let none_left = r#"{"charged":0,"reserved":0,"partial":false,"remaining_tokens":null}"#;
        assert_eq!(settled(none_left).check(), Ok(()));
        for (from, to) in [
            ("12", "-1"),
            ("12", "012"),
            ("12", ""),
            ("12", "18446744073709551616"),
            ("40", "4.0"),
            ("true", "1"),
            ("88", "nul"),
            (",\"reserved\":40", ""),
            ("}", "}\n"),
            ("}", ",\"more\":1}"),
            ("{", " {"),
        ] {
            let broken = JSON.replacen(from, to, 1);
            assert_eq!(
                settled(&broken).check(),
                Err(LogError::Settlement),
                "{broken}"
            );
        }
    }

    #[test]
    fn an_outcome_is_one_word() {
        let terminal = Terminal {
            outcome: "not one",
            settlement: None,
        };
        assert_eq!(terminal.check(), Err(LogError::Outcome));
    }
}
