//! What a log would know, for encoders that have none.

use std::collections::BTreeMap;

use super::Encoder;
use super::marks::Marks;
use super::options::{Dialect, EncoderOptions};
use crate::log::{Checks, Integrity, Leaf};
use crate::record::{Kind, Record};

/// Follows the records of one stream from seq 1 on.
#[derive(Clone, Debug)]
pub struct Ledger {
    next_seq: u64,
    /// Gone after a missing seq: nothing is known then.
    integrity: Option<Integrity>,
    texts: Option<BTreeMap<(u8, u16), String>>,
}

impl Ledger {
    /// The ledger that encoders of these options need, if any; leaves name `stream_id`.
    #[must_use]
    pub fn new(options: &EncoderOptions, stream_id: &str) -> Option<Self> {
        let keeps_text = options.dialect == Dialect::Responses;
        (options.integrity || keeps_text).then(|| Self {
            next_seq: 1,
            integrity: options
                .integrity
                .then(|| Integrity::new(stream_id.as_bytes())),
            texts: keeps_text.then(BTreeMap::new),
        })
    }

    /// Appends the frames of the next record.
    pub fn encode(&mut self, encoder: &mut Encoder, record: &Record<'_>, out: &mut Vec<u8>) {
        let leaf = self.take(record);
        let checks = self.checks(record);
        let texts = self.texts.as_ref();
        let text = |branch, choice| {
            let known = texts.and_then(|texts| texts.get(&(branch, choice)));
            known.cloned().unwrap_or_default()
        };
        let marks = Marks {
            crc: self.integrity.as_ref().map(Integrity::crc),
            leaf: leaf.as_ref(),
            checks: checks.as_ref(),
            text: Some(&text),
        };
        encoder.encode(record, &marks, out);
    }

    /// Counts a record in; returns the leaf that it completes.
    fn take(&mut self, record: &Record<'_>) -> Option<Leaf> {
        if record.seq != self.next_seq {
            self.integrity = None;
        }
        self.next_seq = record.seq.saturating_add(1);
        if record.kind == Kind::Token
            && let Some(texts) = &mut self.texts
        {
            let text = texts.entry((record.branch, record.choice)).or_default();
            text.push_str(record.text);
        }
        let integrity = self.integrity.as_mut()?;
        integrity.add(record);
        let last = record.seq - 1;
        let leaf = integrity.leaves_after(last).next().copied();
        integrity.drop_record(record);
        leaf
    }

    fn checks(&self, record: &Record<'_>) -> Option<Checks> {
        let integrity = self.integrity.as_ref()?;
        (record.kind == Kind::End).then(|| integrity.checks())
    }
}
