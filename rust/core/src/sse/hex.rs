//! Lower-case hexadecimal straight into a byte buffer.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends `bytes`, two digits each.
pub(super) fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 0xf)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        let mut out = Vec::new();
        push_hex(&[0x00, 0x0a, 0xf3], &mut out);
        assert_eq!(out, b"000af3");
    }
}
