//! The `stream` member that says where a chunk stands in its stream.

use super::options::EncoderOptions;
use crate::record::Record;
use crate::sse::decimal::push_decimal;
use crate::sse::json::{push_escaped, push_string};
use crate::sse::timestamp::Timestamps;

/// Writes `,"stream":{"seq":…,"ts":…,"model_id":…,"chunk_id":…,"token_count":…}`.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    timestamps: Timestamps,
    /// From the end of the timestamp to the seq that makes the chunk id unique.
    ids: Vec<u8>,
}

impl Metadata {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        let mut ids = b"\",\"model_id\":".to_vec();
        push_string(&options.model, &mut ids);
        ids.extend_from_slice(b",\"chunk_id\":\"");
        push_escaped(&options.chunk_id, &mut ids);
        ids.push(b'-');
        Self {
            timestamps: Timestamps::new(),
            ids,
        }
    }

    pub(super) fn push_member(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"stream\":{\"seq\":");
        push_decimal(record.seq, out);
        out.extend_from_slice(b",\"ts\":\"");
        self.timestamps.push(record.time_ns, out);
        out.extend_from_slice(&self.ids);
        push_decimal(record.seq, out);
        out.extend_from_slice(b"\",\"token_count\":");
        push_decimal(u64::from(record.token_count), out);
        out.push(b'}');
    }
}
