//! What stands around the JSON of every frame: lines before it, the framing, the `stream` member.

use super::event_id::EventIds;
use super::fields::FieldLines;
use super::marks::Marks;
use super::member::StreamMember;
use super::options::{EncoderOptions, Framing};
use crate::record::Record;
use crate::sse::decimal::push_decimal;

/// Opens and closes frames.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    framing: Framing,
    ids: EventIds,
    has_ids: bool,
    /// Until the first frame: a line of its own would be an event without data for some clients.
    retry_ms: Option<u64>,
    fields: Option<FieldLines>,
    /// Whether the next frame has no lines before its data, told by one look: it is so in most.
    is_bare: bool,
    /// None in the usual stream, which has no such member.
    member: Option<StreamMember>,
}

impl Wire {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        let has_ids_in_json = !options.is_sse() && options.epoch.is_some();
        let has_more = options.is_openai() && (options.integrity || has_ids_in_json);
        let mut wire = Self {
            framing: options.framing,
            ids: EventIds::new(options),
            has_ids: options.epoch.is_some(),
            retry_ms: options.retry_ms.filter(|_| options.is_sse()),
            fields: (options.fields && options.is_sse()).then(|| FieldLines::new(options)),
            is_bare: false,
            member: (options.metadata || has_more).then(|| StreamMember::new(options)),
        };
        wire.look_for_lines();
        wire
    }

    pub(super) const fn framing(&self) -> Framing {
        self.framing
    }

    pub(super) const fn ids(&self) -> &EventIds {
        &self.ids
    }

    /// Lets the next frame carry this reconnection time, in milliseconds.
    pub(super) fn retry_with(&mut self, retry_ms: u64) {
        if self.framing == Framing::Sse {
            self.retry_ms = Some(retry_ms);
            self.look_for_lines();
        }
    }

    /// Opens the last frame of a record: the one whose id says that the record has been read.
    #[inline]
    pub(super) fn open(&mut self, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        if !self.is_bare {
            self.push_id_line(record, marks, out);
            self.open_unstored(out);
        }
    }

    /// Opens a frame that leaves the client's place where it is.
    pub(super) fn open_unstored(&mut self, out: &mut Vec<u8>) {
        if let Some(retry_ms) = self.retry_ms.take() {
            out.extend_from_slice(b"retry: ");
            push_decimal(retry_ms, out);
            out.push(b'\n');
            self.look_for_lines();
        }
    }

    /// Appends the lines of metadata, if they were asked for.
    #[inline]
    pub(super) fn push_fields(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        if let Some(fields) = &self.fields {
            fields.push(record, out);
        }
    }

    #[inline]
    pub(super) const fn has_fields(&self) -> bool {
        self.fields.is_some()
    }

    pub(super) const fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Appends `"id":…,`, if there are ids.
    pub(super) fn push_id_member(&self, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        if self.has_ids {
            out.extend_from_slice(b"\"id\":\"");
            self.ids.push(record, marks, out);
            out.extend_from_slice(b"\",");
        }
    }

    /// Closes an object that carries the `stream` member, and its frame.
    #[inline]
    pub(super) fn close_object(
        &mut self,
        record: &Record<'_>,
        marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        if let Some(member) = &mut self.member {
            member.push(&self.ids, record, marks, &[], out);
        }
        self.close(out);
    }

    /// Closes an object whose `stream` member says `more`, and its frame.
    pub(super) fn close_object_with(
        &mut self,
        record: &Record<'_>,
        marks: &Marks<'_>,
        more: &[u8],
        out: &mut Vec<u8>,
    ) {
        match &mut self.member {
            Some(member) => member.push(&self.ids, record, marks, more, out),
            None => push_alone(more, out),
        }
        self.close(out);
    }

    /// Closes an object and its frame: a blank line ends an event, a line end ends a line.
    #[inline]
    pub(super) fn close(&self, out: &mut Vec<u8>) {
        match self.framing {
            Framing::Sse => out.extend_from_slice(b"}\n\n"),
            Framing::Ndjson => out.extend_from_slice(b"}\n"),
        }
    }

    #[inline]
    fn push_id_line(&self, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        if self.has_ids {
            self.ids.push_line(record, marks, out);
        }
    }

    fn look_for_lines(&mut self) {
        let has_lines = self.has_ids || self.retry_ms.is_some() || self.fields.is_some();
        self.is_bare = self.framing == Framing::Ndjson || !has_lines;
    }
}

fn push_alone(more: &[u8], out: &mut Vec<u8>) {
    if let Some((_, members)) = more.split_first() {
        out.extend_from_slice(b",\"stream\":{");
        out.extend_from_slice(members);
        out.push(b'}');
    }
}
