use std::char::REPLACEMENT_CHARACTER;
use std::str;

/// Turns bytes that arrive in any pieces into whole scalars; each maximal invalid part becomes
/// one U+FFFD, as in a lossy decoding of the whole.
#[derive(Clone, Debug, Default)]
pub struct Utf8Decoder {
    buffer: Vec<u8>,
}

impl Utf8Decoder {
    /// Appends the text that is certain by now.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        if self.buffer.is_empty() {
            let rest = decode(bytes, out);
            self.buffer.extend_from_slice(rest);
        } else {
            self.buffer.extend_from_slice(bytes);
            let rest = decode(&self.buffer, out).len();
            self.buffer.drain(..self.buffer.len() - rest);
        }
    }

    /// Ends the text: a character that lacks bytes becomes one U+FFFD.
    pub fn finish(&mut self, out: &mut String) {
        if !self.buffer.is_empty() {
            self.buffer.clear();
            out.push(REPLACEMENT_CHARACTER);
        }
    }
}

/// Appends what is decided; returns the bytes of a character whose rest may still come.
fn decode<'a>(mut bytes: &'a [u8], out: &mut String) -> &'a [u8] {
    loop {
        let error = match str::from_utf8(bytes) {
            Ok(text) => {
                out.push_str(text);
                return &[];
            }
            Err(error) => error,
        };
        let (valid, rest) = bytes.split_at(error.valid_up_to());
        out.push_str(str::from_utf8(valid).unwrap_or_default());
        let Some(invalid) = error.error_len() else {
            return rest;
        };
        out.push(REPLACEMENT_CHARACTER);
        bytes = &rest[invalid..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes that often form characters, cut characters and nonsense.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let edge = prop::sample::select(vec![
            0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe2,
            0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff_u8,
        ]);
        prop::collection::vec(prop_oneof![edge, any::<u8>()], 0..40)
    }

    proptest! {
        #[test]
        fn any_split_gives_the_lossy_decoding_of_the_whole(
            bytes in bytes(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut decoder = Utf8Decoder::default();
            let mut text = String::new();
            for pair in cuts.windows(2) {
                decoder.push(&bytes[pair[0]..pair[1]], &mut text);
            }
            decoder.finish(&mut text);
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }

    /// api7/aisix#111: decoding chunk by chunk damaged CJK and emoji.
    #[test]
    fn a_character_cut_at_any_byte_stays_whole() {
        for text in ["é", "漢", "🦀", "👩‍🚀"] {
            for cut in 0..=text.len() {
                let mut decoder = Utf8Decoder::default();
                let mut out = String::new();
                decoder.push(&text.as_bytes()[..cut], &mut out);
                decoder.push(&text.as_bytes()[cut..], &mut out);
                assert_eq!(out, text);
            }
        }
    }

    #[test]
    fn a_character_is_shown_with_its_last_byte_and_not_before() {
        let mut decoder = Utf8Decoder::default();
        let mut out = String::new();
        for byte in &"🦀".as_bytes()[..3] {
            decoder.push(&[*byte], &mut out);
            assert_eq!(out, "");
        }
        decoder.push(&[0x80], &mut out);
        assert_eq!(out, "🦀");
    }

    /// openai/harmony#83: bytes piled up for ever behind an invalid one.
    #[test]
    fn never_keeps_more_than_three_bytes() {
        let mut decoder = Utf8Decoder::default();
        let mut out = String::new();
        for round in 0..1000_u32 {
            decoder.push(&[0xf0, 0x9f, 0x98, (round % 256) as u8], &mut out);
            assert!(decoder.buffer.len() <= 3);
        }
    }
}
