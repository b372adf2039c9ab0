//! Times between tokens, counted where the tokens arrive so that metrics cost Python nothing.

/// Upper bounds of the inter-token buckets in nanoseconds; one more bucket takes the rest.
///
/// OpenTelemetry's list for time per output token, finer below 10 ms and wider above 2.5 s.
pub const INTER_TOKEN_BOUNDS_NS: [u64; 18] = [
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    75_000_000,
    100_000_000,
    150_000_000,
    200_000_000,
    300_000_000,
    400_000_000,
    500_000_000,
    750_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// A histogram of the times between tokens of the same choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterToken {
    /// Tokens by bucket of [`INTER_TOKEN_BOUNDS_NS`], not cumulative.
    pub counts: [u32; INTER_TOKEN_BOUNDS_NS.len() + 1],
    /// Sum of all times in nanoseconds.
    pub sum_ns: u64,
}

impl InterToken {
    pub(super) const NONE: Self = Self {
        counts: [0; INTER_TOKEN_BOUNDS_NS.len() + 1],
        sum_ns: 0,
    };

    /// Counts a record of `tokens` tokens that came `gap_ns` after the one before.
    ///
    /// Several tokens in one record share the gap evenly: counted once it would look as slow as
    /// all of them together (vllm#27485).
    pub(super) fn observe(&mut self, gap_ns: u64, tokens: u32) {
        if tokens == 0 {
            return;
        }
        let each = gap_ns / u64::from(tokens);
        let bucket = INTER_TOKEN_BOUNDS_NS.partition_point(|&bound| bound < each);
        self.counts[bucket] = self.counts[bucket].saturating_add(tokens);
        self.sum_ns = self.sum_ns.saturating_add(gap_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        let mut times = InterToken::default();
        times.observe(1_000_000, 1);
        times.observe(1_000_001, 1);
        times.observe(u64::MAX, 1);
        assert_eq!(
            (times.counts[0], times.counts[1], times.counts[18]),
            (1, 1, 1)
        );
    }

    #[test]
    fn merged_tokens_share_the_gap() {
        let mut times = InterToken::default();
        times.observe(40_000_000, 4);
        assert_eq!((times.counts[3], times.sum_ns), (4, 40_000_000));
    }
}
