//! Numbers and texts in a batch.

use super::BatchError;

/// Writes a varint.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a time as its difference to another.
pub(super) fn put_time(out: &mut Vec<u8>, time_ns: u64, before_ns: u64) {
    let difference = time_ns.wrapping_sub(before_ns) as i64;
    put(out, ((difference << 1) ^ (difference >> 63)) as u64);
}

/// Writes a text with its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Takes from the front of a batch; believes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire<'a> {
    rest: &'a [u8],
}

impl<'a> Wire<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn byte(&mut self) -> Result<u8, BatchError> {
        let (first, rest) = self.rest.split_first().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, BatchError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(LARGE);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(LARGE)
    }

    /// A number of at most `max`.
    pub(super) fn bounded(&mut self, max: u64) -> Result<u64, BatchError> {
        self.number()
            .and_then(|value| if value > max { Err(LARGE) } else { Ok(value) })
    }

    pub(super) fn choice(&mut self) -> Result<u16, BatchError> {
        u16::try_from(self.number()?).map_err(|_| LARGE)
    }

    pub(super) fn time(&mut self, before_ns: u64) -> Result<u64, BatchError> {
        let zigzag = self.number()?;
        let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
        Ok(before_ns.wrapping_add(difference))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], BatchError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], BatchError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, BatchError> {
        let length = usize::try_from(self.number()?).map_err(|_| SHORT)?;
        let bytes = self.bytes(length)?;
        std::str::from_utf8(bytes).map_err(|_| BatchError::Damaged("text that is not UTF-8"))
    }
}

const SHORT: BatchError = BatchError::Damaged("it ends too early");
const LARGE: BatchError = BatchError::Damaged("a number is too large");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_and_times_come_back(value: u64, before: u64, text in "\\PC{0,9}") {
            let mut out = Vec::new();
            put(&mut out, value);
            put_time(&mut out, value, before);
            put_text(&mut out, &text);
            let mut wire = Wire::new(&out);
            prop_assert_eq!(wire.number(), Ok(value));
            prop_assert_eq!(wire.time(before), Ok(value));
            prop_assert_eq!(wire.text(), Ok(text.as_str()));
            prop_assert_eq!(wire.left(), 0);
        }

        #[test]
        fn any_bytes_are_a_number_or_refused(bytes: [u8; 12]) {
            let mut wire = Wire::new(&bytes);
            if wire.number().is_ok() {
                prop_assert!(wire.left() >= 2);
            }
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(Wire::new(&bytes).number(), Ok(u64::MAX));
        bytes[9] = 2;
        assert_eq!(Wire::new(&bytes).number(), Err(LARGE));
        assert_eq!(Wire::new(&[0x80]).number(), Err(SHORT));
    }
}
