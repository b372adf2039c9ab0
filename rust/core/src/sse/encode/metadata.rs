//! Where a record stands in its stream, as members of the `stream` member.

use super::branches::PerBranch;
use super::options::{BranchName, EncoderOptions};
use crate::record::Record;
use crate::sse::decimal::push_decimal;
use crate::sse::json::{push_escaped, push_string};
use crate::sse::timestamp::Timestamps;

/// Writes the seq, then `,"ts":…,"model_id":…,"chunk_id":…,"token_count":…`.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    timestamps: Timestamps,
    /// From the end of the timestamp to the seq that makes the chunk id unique.
    ids: PerBranch<Vec<u8>>,
}

impl Metadata {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        Self {
            timestamps: Timestamps::new(),
            ids: options.per_branch(ids),
        }
    }

    /// Appends the members from the first value on.
    pub(super) fn push(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        push_decimal(record.seq, out);
        let digits = start..out.len();
        out.extend_from_slice(b",\"ts\":\"");
        self.timestamps.push(record.time_ns, out);
        out.extend_from_slice(self.ids.of(record.branch));
        out.extend_from_within(digits);
        out.extend_from_slice(b"\",\"token_count\":");
        push_decimal(u64::from(record.token_count), out);
    }
}

fn ids(name: &BranchName) -> Vec<u8> {
    let mut ids = b"\",\"model_id\":".to_vec();
    push_string(&name.model, &mut ids);
    ids.extend_from_slice(b",\"chunk_id\":\"");
    push_escaped(&name.chunk_id, &mut ids);
    ids.push(b'-');
    ids
}
