//! What the log knows of the text's integrity, as members.

use crate::log::{Checks, Leaf};
use crate::sse::decimal::push_decimal;
use crate::sse::hex::push_hex;

/// Appends `,"crc":…`.
pub(super) fn push_crc(crc: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"crc\":\"");
    push_hex(&crc.to_be_bytes(), out);
    out.push(b'"');
}

/// Appends `"index":…,"digest":…`.
pub(super) fn push_leaf(leaf: &Leaf, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"index\":");
    push_decimal(leaf.index, out);
    out.extend_from_slice(b",\"digest\":\"");
    push_hex(&leaf.digest, out);
    out.push(b'"');
}

/// Appends `,"checks":{…}`.
pub(super) fn push_checks(checks: &Checks, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"checks\":{\"records\":");
    push_decimal(checks.records, out);
    out.extend_from_slice(b",\"bytes\":");
    push_decimal(checks.bytes, out);
    push_crc(checks.crc, out);
    out.extend_from_slice(b",\"root\":\"");
    push_hex(&checks.root, out);
    out.extend_from_slice(b"\"}");
}
