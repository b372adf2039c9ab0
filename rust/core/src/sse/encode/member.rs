//! The `stream` member: all that OpenAI's chunks have no place for.

use super::checks::{push_crc, push_leaf};
use super::event_id::EventIds;
use super::marks::Marks;
use super::metadata::Metadata;
use super::options::EncoderOptions;
use crate::record::Record;

/// Writes `,"stream":{…}` with what was asked for, or nothing if that is nothing.
#[derive(Clone, Debug)]
pub(super) struct StreamMember {
    metadata: Option<Metadata>,
    has_id: bool,
    has_checks: bool,
}

impl StreamMember {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        Self {
            metadata: options.metadata.then(|| Metadata::new(options)),
            has_id: options.is_openai() && !options.is_sse() && options.epoch.is_some(),
            has_checks: options.is_openai() && options.integrity,
        }
    }

    /// Appends the member; `more` are further members of it, each after its comma.
    pub(super) fn push(
        &mut self,
        ids: &EventIds,
        record: &Record<'_>,
        marks: &Marks<'_>,
        more: &[u8],
        out: &mut Vec<u8>,
    ) {
        match &mut self.metadata {
            Some(metadata) if !self.has_id && !self.has_checks && more.is_empty() => {
                out.extend_from_slice(b",\"stream\":{\"seq\":");
                metadata.push(record, out);
                out.push(b'}');
            }
            _ => self.push_some(ids, record, marks, more, out),
        }
    }

    /// Appends whatever there is, the brace in place of the first comma.
    fn push_some(
        &mut self,
        ids: &EventIds,
        record: &Record<'_>,
        marks: &Marks<'_>,
        more: &[u8],
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.extend_from_slice(b",\"stream\":");
        let first_comma = out.len();
        if self.has_id {
            out.extend_from_slice(b",\"id\":\"");
            ids.push(record, marks, out);
            out.push(b'"');
        }
        if let Some(metadata) = &mut self.metadata {
            out.extend_from_slice(b",\"seq\":");
            metadata.push(record, out);
        }
        if self.has_checks {
            push_marks(marks, out);
        }
        out.extend_from_slice(more);
        if out.len() == first_comma {
            out.truncate(start);
        } else {
            out[first_comma] = b'{';
            out.push(b'}');
        }
    }
}

fn push_marks(marks: &Marks<'_>, out: &mut Vec<u8>) {
    if let Some(crc) = marks.crc {
        push_crc(crc, out);
    }
    if let Some(leaf) = marks.leaf {
        out.extend_from_slice(b",\"leaf\":{");
        push_leaf(leaf, out);
        out.push(b'}');
    }
}
