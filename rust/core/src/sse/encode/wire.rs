//! What stands around the JSON of every frame: the `id` line, the framing, the metadata member.

use super::metadata::Metadata;
use super::options::{EncoderOptions, Framing};
use crate::record::Record;
use crate::sse::decimal::push_decimal;

/// Opens and closes frames.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    framing: Framing,
    id_prefix: Vec<u8>,
    metadata: Option<Metadata>,
}

impl Wire {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        Self {
            framing: options.framing,
            id_prefix: id_prefix(options),
            metadata: options.metadata.then(|| Metadata::new(options)),
        }
    }

    pub(super) const fn framing(&self) -> Framing {
        self.framing
    }

    /// Appends the `id` line, if this encoder writes any.
    pub(super) fn push_id(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        if !self.id_prefix.is_empty() {
            out.extend_from_slice(&self.id_prefix);
            push_decimal(record.seq, out);
            out.push(b'\n');
        }
    }

    /// Closes an object that carries the metadata member, and its frame.
    pub(super) fn close_object(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        if let Some(metadata) = &mut self.metadata {
            metadata.push_member(record, out);
        }
        out.push(b'}');
        self.close_frame(out);
    }

    /// Closes a frame: a blank line ends an event, a line end ends a line.
    pub(super) fn close_frame(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.framing {
            Framing::Sse => b"\n\n",
            Framing::Ndjson => b"\n",
        });
    }
}

fn id_prefix(options: &EncoderOptions) -> Vec<u8> {
    match (options.framing, options.epoch) {
        (Framing::Sse, Some(epoch)) => format!("id: {epoch}-").into_bytes(),
        _ => Vec::new(),
    }
}
