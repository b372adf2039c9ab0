//! Decimal digits straight into a byte buffer.

/// `u64::MAX` has twenty digits.
const MAX_DIGITS: usize = 20;

/// Appends `value` in decimal.
pub(super) fn push_decimal(mut value: u64, out: &mut Vec<u8>) {
    if value < 10 {
        out.push(digit(value));
        return;
    }
    let mut digits = [0_u8; MAX_DIGITS];
    let mut start = MAX_DIGITS;
    loop {
        start -= 1;
        digits[start] = digit(value % 10);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Writes `value` into all of `field`, with leading zeros; higher digits are cut.
pub(super) fn fill_padded(mut value: u64, field: &mut [u8]) {
    for place in field.iter_mut().rev() {
        *place = digit(value % 10);
        value /= 10;
    }
}

const fn digit(value: u64) -> u8 {
    b'0' + value as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_leading_zeros() {
        for value in [0, 9, 10, 99, 100, 4_294_967_296, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(value, &mut out);
            assert_eq!(out, value.to_string().into_bytes());
        }
    }

    #[test]
    fn a_padded_field_is_filled_from_the_right() {
        let mut field = *b"xxxx";
        fill_padded(37, &mut field);
        assert_eq!(&field, b"0037");
    }
}
