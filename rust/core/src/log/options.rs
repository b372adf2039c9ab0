use super::error::LogError;

/// Text offsets are 32 bits wide and the arena may be half as large again as the bound.
const MAX_BYTES: u64 = 1 << 30;
const MAX_RECORDS: u64 = 1 << 30;
const MAX_BRANCHES: u64 = 1 << 8;
/// Largest seq that a log or a batch may start with: no count of what follows can overflow.
pub(super) const MAX_FIRST_SEQ: u64 = 1 << 62;

/// How much a log keeps, how many branches it has and whether it checks its text.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Bytes of text kept.
    pub max_bytes: usize,
    /// Records kept.
    pub max_records: usize,
    /// The stream id that goes into the Merkle leaves; no checks are made without it.
    pub integrity: Option<Box<[u8]>>,
    /// Requests that share the stream.
    pub branches: usize,
    /// The seq of the first record; more than 1 in a mirror whose beginning is elsewhere.
    pub first_seq: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 20,
            max_records: 1 << 16,
            integrity: None,
            branches: 1,
            first_seq: 1,
        }
    }
}

impl LogOptions {
    pub(super) fn check(&self) -> Result<(), LogError> {
        let bounds = [
            ("max_bytes", self.max_bytes as u64, MAX_BYTES),
            ("max_records", self.max_records as u64, MAX_RECORDS),
            ("branches", self.branches as u64, MAX_BRANCHES),
            ("first_seq", self.first_seq, MAX_FIRST_SEQ),
        ];
        for (name, value, max) in bounds {
            if value == 0 || value > max {
                return Err(LogError::Bound { name, value, max });
            }
        }
        Ok(())
    }
}
