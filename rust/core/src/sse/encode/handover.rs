//! The hand-over record: where and when to read on after this server has left.

use super::marks::Marks;
use super::wire::Wire;
use crate::record::Record;
use crate::sse::json::push_one_line;
use crate::sse::scan;

/// Lets the frame of a hand-over carry its own reconnection time.
pub(super) fn announce_retry(wire: &mut Wire, record: &Record<'_>) {
    if let Some(retry_ms) = scan::number(record.text, "retry_ms") {
        wire.retry_with(retry_ms);
    }
}

/// Appends the members of the record and `"after":…`, the id to send when coming back.
pub(super) fn push_members(wire: &Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
    let members = scan::members(record.text);
    if !members.is_empty() {
        push_one_line(members, out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"after\":\"");
    wire.ids().push(record, marks, out);
    out.push(b'"');
}
