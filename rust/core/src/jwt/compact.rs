use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::error::JwtError;

/// The longest token that is looked at.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The parts of a token, still in base64url.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compact<'t> {
    pub(super) header: &'t str,
    pub(super) payload: &'t str,
    pub(super) signature: &'t str,
    /// Header and payload with the dot between: what the signature is over.
    pub(super) signed: &'t str,
}

impl<'t> Compact<'t> {
    pub(super) fn split(token: &'t [u8]) -> Result<Self, JwtError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(JwtError::Malformed("it is too long"));
        }
        let three = JwtError::Malformed("it is not three parts with dots between");
        let token = std::str::from_utf8(token).map_err(|_| three)?;
        let (signed, signature) = token.rsplit_once('.').ok_or(three)?;
        let (header, payload) = signed.split_once('.').ok_or(three)?;
        if payload.contains('.') {
            return Err(three);
        }
        Ok(Self {
            header,
            payload,
            signature,
            signed,
        })
    }
}

/// The text that a part holds. Padding, spaces and bits beyond the last byte are refused, so that a
/// token has one spelling.
pub(super) fn decode_text(part: &str) -> Result<String, JwtError> {
    let bytes = URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| JwtError::Malformed("a part is not base64url"))?;
    String::from_utf8(bytes).map_err(|_| JwtError::Malformed("a part is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_exactly_three_parts() {
        for token in ["", ".", "a", "a.b", "a.b.c.d", "a.b.c."] {
            assert!(Compact::split(token.as_bytes()).is_err(), "{token}");
        }
        let parts = Compact::split(b"a.b.c").unwrap();
        let found = (parts.header, parts.payload, parts.signature, parts.signed);
        assert_eq!(found, ("a", "b", "c", "a.b"));
    }

    #[test]
    fn length_is_checked_before_anything_else() {
        let longest = [&b"a."[..], &vec![b'x'; MAX_TOKEN_BYTES - 4], b".c"].concat();
        assert!(Compact::split(&longest).is_ok());
        let longer = [&longest[..], b"d"].concat();
        let refused = Compact::split(&longer).err();
        assert_eq!(refused, Some(JwtError::Malformed("it is too long")));
    }

    #[test]
    fn a_part_has_one_spelling() {
        assert_eq!(decode_text("e30").as_deref(), Ok("{}"));
        for other in ["e30=", "e31", "e3 0", "e30\n", "e+0", "e/0", "e"] {
            assert!(decode_text(other).is_err(), "{other}");
        }
    }
}
