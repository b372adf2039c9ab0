//! Millstream's own events: `token`, `finish`, `usage`, `error`, `done`.

use super::marks::Marks;
use super::options::Framing;
use super::wire::Wire;
use crate::record::{Kind, Record};
use crate::sse::decimal::push_decimal;
use crate::sse::json::{push_one_line, push_string};

/// How each event opens, up to and including the first member's name.
#[derive(Clone, Debug)]
pub(super) struct NativeFrames {
    token: &'static [u8],
    finish: &'static [u8],
    usage: &'static [u8],
    error: &'static [u8],
    done: &'static [u8],
}

const SSE: NativeFrames = NativeFrames {
    token: b"event: token\ndata: {\"choice\":",
    finish: b"event: finish\ndata: {\"choice\":",
    usage: b"event: usage\ndata: {\"usage\":",
    error: b"event: error\ndata: {\"error\":",
    done: b"event: done\ndata: {\"outcome\":",
};

const NDJSON: NativeFrames = NativeFrames {
    token: b"{\"event\":\"token\",\"choice\":",
    finish: b"{\"event\":\"finish\",\"choice\":",
    usage: b"{\"event\":\"usage\",\"usage\":",
    error: b"{\"event\":\"error\",\"error\":",
    done: b"{\"event\":\"done\",\"outcome\":",
};

impl NativeFrames {
    pub(super) const fn new(framing: Framing) -> Self {
        match framing {
            Framing::Sse => SSE,
            Framing::Ndjson => NDJSON,
        }
    }

    pub(super) fn encode(
        &self,
        wire: &mut Wire,
        record: &Record<'_>,
        _marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        if matches!(record.kind, Kind::Handover | Kind::BranchEnd) {
            return;
        }
        wire.push_id(record, out);
        match record.kind {
            Kind::Token => self.push_token(record, out),
            Kind::Finish => self.push_finish(record, out),
            Kind::Usage => push_value(self.usage, record.text, out),
            Kind::Error => push_value(self.error, record.text, out),
            Kind::Handover | Kind::BranchEnd => {}
            Kind::End => {
                out.extend_from_slice(self.done);
                push_string(record.text, out);
            }
        }
        wire.close_object(record, out);
    }

    fn push_token(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.token);
        push_decimal(u64::from(record.choice), out);
        out.extend_from_slice(b",\"text\":");
        push_string(record.text, out);
        out.extend_from_slice(b",\"tokens\":");
        push_decimal(u64::from(record.token_count), out);
    }

    fn push_finish(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.finish);
        push_decimal(u64::from(record.choice), out);
        out.extend_from_slice(b",\"finish_reason\":");
        push_string(record.text, out);
    }
}

fn push_value(opening: &[u8], json: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(opening);
    push_one_line(json, out);
}
