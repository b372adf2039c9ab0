use std::sync::Arc;

use super::error::DetokenizerError;
use super::stop::{StopMatcher, StopStrings};
use super::utf8::Utf8Decoder;
use super::vocabulary::Vocabulary;

/// One choice's ids on their way to text.
#[derive(Clone, Debug)]
pub struct Detokenizer {
    vocabulary: Arc<Vocabulary>,
    decoder: Utf8Decoder,
    matcher: Option<StopMatcher>,
    piece: String,
}

impl Detokenizer {
    /// A detokenizer at the start of a text that ends before the first of the stop strings.
    ///
    /// # Errors
    /// As [`StopStrings::new`].
    pub fn new<T: AsRef<str>>(
        vocabulary: Arc<Vocabulary>,
        stops: &[T],
    ) -> Result<Self, DetokenizerError> {
        let matcher = if stops.is_empty() {
            None
        } else {
            Some(StopMatcher::new(Arc::new(StopStrings::new(stops)?)))
        };
        Ok(Self {
            vocabulary,
            decoder: Utf8Decoder::default(),
            matcher,
            piece: String::new(),
        })
    }

    /// Whether a stop string has been found; nothing more is shown then.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.matcher.as_ref().is_some_and(StopMatcher::stopped)
    }

    /// Appends the text that one more id makes certain.
    ///
    /// # Errors
    /// [`DetokenizerError::UnknownToken`]; nothing has changed then.
    pub fn push(&mut self, id: i64, out: &mut String) -> Result<(), DetokenizerError> {
        let bytes = self.vocabulary.bytes(id)?;
        match &mut self.matcher {
            None => self.decoder.push(bytes, out),
            Some(matcher) => {
                self.piece.clear();
                self.decoder.push(bytes, &mut self.piece);
                matcher.push(&self.piece, out);
            }
        }
        Ok(())
    }

    /// Ends the text: appends what was held back; an incomplete character becomes U+FFFD.
    pub fn finish(&mut self, out: &mut String) {
        match &mut self.matcher {
            None => self.decoder.finish(out),
            Some(matcher) => {
                self.piece.clear();
                self.decoder.finish(&mut self.piece);
                matcher.push(&self.piece, out);
                matcher.finish(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(stops: &[&str], ids: &[i64]) -> Vec<String> {
        let tokens: [&[u8]; 6] = [
            b"a",
            "é".as_bytes(),
            b"\xf0\x9f",
            b"\xa6\x80",
            b"<s>",
            b"\xc3",
        ];
        let vocabulary = Arc::new(Vocabulary::new(&tokens, &[4]).unwrap());
        let mut detokenizer = Detokenizer::new(vocabulary, stops).unwrap();
        let mut shown = Vec::new();
        for &id in ids {
            let mut out = String::new();
            detokenizer.push(id, &mut out).unwrap();
            shown.push(out);
        }
        let mut out = String::new();
        detokenizer.finish(&mut out);
        shown.push(out);
        shown
    }

    #[test]
    fn a_character_over_two_ids_is_shown_with_the_second() {
        assert_eq!(texts(&[], &[0, 2, 3, 1]), ["a", "", "🦀", "é", ""]);
    }

    #[test]
    fn a_special_id_inside_a_character_changes_nothing() {
        assert_eq!(texts(&[], &[2, 4, 3]), ["", "", "🦀", ""]);
    }

    #[test]
    fn an_incomplete_character_is_shown_at_the_end() {
        assert_eq!(texts(&[], &[0, 2]), ["a", "", "\u{fffd}"]);
        assert_eq!(texts(&["\u{fffd}"], &[0, 5]), ["a", "", ""]);
    }

    #[test]
    fn a_stop_that_ends_inside_an_id_sequence_of_one_character_is_found() {
        assert_eq!(texts(&["a🦀"], &[1, 0, 2, 3, 0]), ["é", "", "", "", "", ""]);
    }

    #[test]
    fn an_unknown_id_is_an_error() {
        let vocabulary = Arc::new(Vocabulary::new(&["a"], &[]).unwrap());
        let mut detokenizer = Detokenizer::new::<&str>(vocabulary, &[]).unwrap();
        let error = detokenizer.push(1, &mut String::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "token id 1 is outside the vocabulary of 1"
        );
    }
}
