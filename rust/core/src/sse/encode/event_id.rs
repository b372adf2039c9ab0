//! Event ids: `<epoch>-<seq>`, with integrity checks `<epoch>-<seq>-<crc>`.

use super::marks::Marks;
use super::options::EncoderOptions;
use crate::record::Record;
use crate::sse::decimal::push_decimal;
use crate::sse::hex::push_hex;

const LABEL: &[u8] = b"id: ";

/// Writes the ids of one stream.
#[derive(Clone, Debug)]
pub(super) struct EventIds {
    /// The label of an `id` line, then the epoch and its hyphen, if there is an epoch.
    line: Vec<u8>,
    integrity: bool,
}

impl EventIds {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        let mut line = LABEL.to_vec();
        if let Some(epoch) = options.epoch {
            push_decimal(epoch, &mut line);
            line.push(b'-');
        }
        Self {
            line,
            integrity: options.integrity,
        }
    }

    /// Appends the `id` line of a record.
    #[inline]
    pub(super) fn push_line(&self, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.line);
        push_decimal(record.seq, out);
        self.push_crc(marks, out);
        out.push(b'\n');
    }

    /// Appends the id of a record; without an epoch it is the seq (and crc) alone.
    pub(super) fn push(&self, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        self.push_position(record.seq, out);
        self.push_crc(marks, out);
    }

    /// Appends the id of the record `seq` without a crc.
    pub(super) fn push_position(&self, seq: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.line[LABEL.len()..]);
        push_decimal(seq, out);
    }

    #[inline]
    fn push_crc(&self, marks: &Marks<'_>, out: &mut Vec<u8>) {
        if let Some(crc) = marks.crc.filter(|_| self.integrity) {
            out.push(b'-');
            push_hex(&crc.to_be_bytes(), out);
        }
    }
}
