//! JSON strings (RFC 8259) straight into a byte buffer.
//!
//! Only what must be escaped is: quote, backslash and the control characters below U+0020.
//! Everything else, U+2028 and emoji included, stays the UTF-8 it was.

use memchr::memchr2;

const LANES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `text` as a JSON string with its quotes.
pub(super) fn push_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    push_escaped(text, out);
    out.push(b'"');
}

/// Appends `text` escaped, without quotes.
pub(super) fn push_escaped(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(at) = first_to_escape(rest) {
        out.extend_from_slice(&rest[..at]);
        push_escape(rest[at], out);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends JSON that is already text, on one line.
///
/// Raw line ends are only legal between JSON tokens, where a space means the same; left in they
/// would cut the frame in two.
pub(super) fn push_one_line(json: &str, out: &mut Vec<u8>) {
    let mut rest = json.as_bytes();
    while let Some(at) = memchr2(b'\r', b'\n', rest) {
        out.extend_from_slice(&rest[..at]);
        out.push(b' ');
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 0xf)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn first_to_escape(bytes: &[u8]) -> Option<usize> {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let hits = lanes_to_escape(u64::from_le_bytes(*word));
        if hits != 0 {
            return Some(index * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let at = tail.iter().position(|&byte| must_escape(byte))?;
    Some(words.len() * 8 + at)
}

const fn must_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The high bit of each byte of `word` that must be escaped.
///
/// A borrow can also mark bytes above a true hit, never below one, so the lowest mark is exact.
const fn lanes_to_escape(word: u64) -> u64 {
    let control = word.wrapping_sub(LANES * 0x20) & !word;
    (control | lanes_equal(word, b'"') | lanes_equal(word, b'\\')) & HIGH_BITS
}

const fn lanes_equal(word: u64, byte: u8) -> u64 {
    let zero_where_equal = word ^ (LANES * byte as u64);
    zero_where_equal.wrapping_sub(LANES) & !zero_where_equal
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = Vec::new();
        push_escaped(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// One character at a time, by RFC 8259 section 7.
    fn escaped_slowly(text: &str) -> String {
        text.chars()
            .map(|character| match character {
                '"' => "\\\"".to_owned(),
                '\\' => "\\\\".to_owned(),
                '\n' => "\\n".to_owned(),
                '\r' => "\\r".to_owned(),
                '\t' => "\\t".to_owned(),
                '\u{8}' => "\\b".to_owned(),
                '\u{c}' => "\\f".to_owned(),
                control if control < ' ' => format!("\\u{:04x}", control as u32),
                other => other.to_string(),
            })
            .collect()
    }

    #[test]
    fn every_ascii_character_is_escaped_in_every_lane() {
        for byte in 0..128_u8 {
            for lane in 0..17 {
                let text = format!("{}{}é", "a".repeat(lane), char::from(byte));
                assert_eq!(escaped(&text), escaped_slowly(&text));
            }
        }
    }

    #[test]
    fn line_separators_and_delete_stay_as_they_are() {
        assert_eq!(
            escaped("\u{2028}\u{2029}\u{85}\u{7f}🦀"),
            "\u{2028}\u{2029}\u{85}\u{7f}🦀"
        );
    }

    #[test]
    fn json_on_several_lines_becomes_one_line() {
        let mut out = Vec::new();
        push_one_line("{\r\n \"a\":\n1}", &mut out);
        assert_eq!(out, b"{   \"a\": 1}");
    }

    proptest! {
        #[test]
        fn agrees_with_the_slow_escape(text in "([\\x00-\\x7f]|\\PC){0,80}") {
            prop_assert_eq!(escaped(&text), escaped_slowly(&text));
        }
    }
}
