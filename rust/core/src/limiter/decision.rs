use std::fmt;

use thiserror::Error;

use super::error::LimiterError;

/// The largest cost, burst or limit, whatever its unit.
pub const MAX_COST: u64 = 1 << 40;

/// What a reservation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    requests: u64,
    tokens: u64,
    prompt: u64,
    kibibytes: u64,
}

impl Cost {
    /// `tokens` in all, of which `prompt` are spent even if nothing is generated, and `kibibytes`
    /// that are held while the lease is open.
    ///
    /// # Errors
    /// A number outside `0..=MAX_COST`, a prompt above the tokens, or nothing at all.
    pub const fn new(
        requests: i64,
        tokens: i64,
        prompt: i64,
        kibibytes: i64,
    ) -> Result<Self, LimiterError> {
        let (Ok(requests), Ok(tokens), Ok(prompt), Ok(kibibytes)) = (
            units(requests),
            units(tokens),
            units(prompt),
            units(kibibytes),
        ) else {
            let costs = [requests, tokens, prompt, kibibytes];
            return Err(LimiterError::CostOutOfRange(outlier(costs)));
        };
        if requests == 0 && tokens == 0 && kibibytes == 0 {
            return Err(LimiterError::NothingToReserve);
        }
        if prompt > tokens {
            return Err(LimiterError::PromptExceedsTokens { prompt, tokens });
        }
        Ok(Self {
            requests,
            tokens,
            prompt,
            kibibytes,
        })
    }

    /// Requests asked for, normally one.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Tokens asked for.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Tokens of these that are spent whatever happens.
    #[must_use]
    pub const fn prompt(&self) -> u64 {
        self.prompt
    }

    /// Memory in KiB that is held until the lease ends.
    #[must_use]
    pub const fn kibibytes(&self) -> u64 {
        self.kibibytes
    }
}

/// A cost as an unsigned number.
pub(crate) const fn units(cost: i64) -> Result<u64, LimiterError> {
    if cost < 0 || cost.cast_unsigned() > MAX_COST {
        return Err(LimiterError::CostOutOfRange(cost));
    }
    Ok(cost.cast_unsigned())
}

const fn outlier(costs: [i64; 4]) -> i64 {
    let mut place = 0;
    while place < costs.len() - 1 && units(costs[place]).is_ok() {
        place += 1;
    }
    costs[place]
}

/// One of the four things that a key limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// Requests per time, by token bucket.
    Requests,
    /// Tokens per window.
    Tokens,
    /// Open leases.
    Concurrency,
    /// KiB that open leases hold.
    Bytes,
}

impl Dimension {
    /// The word for it in messages and headers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Concurrency => "concurrency",
            Self::Bytes => "bytes",
        }
    }

    /// Whether only the end of a lease gives it back, which no clock foretells.
    const fn is_held(self) -> bool {
        matches!(self, Self::Concurrency | Self::Bytes)
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Why nothing was taken, and from when on it is worth another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Position of the scope in the order in which the scopes were given.
    pub scope: usize,
    /// What ran out there.
    pub dimension: Dimension,
    /// Nanoseconds after which the same reservation is admitted if nobody else comes.
    ///
    /// When leases are in the way (`Concurrency`, `Bytes`) nobody can know that: then it is the
    /// least time that the other dimensions need, which may be 0. A permanent refusal has 0.
    pub wait_ns: u64,
    /// No waiting helps: the cost exceeds the capacity, or the capacity is zero.
    pub permanent: bool,
}

impl Refusal {
    /// Refused for now; the scope is named by who knows it.
    pub(crate) const fn until(dimension: Dimension, wait_ns: u64) -> Self {
        Self {
            scope: 0,
            dimension,
            wait_ns,
            permanent: false,
        }
    }

    /// Refused for good.
    pub(crate) const fn never(dimension: Dimension) -> Self {
        Self {
            scope: 0,
            dimension,
            wait_ns: 0,
            permanent: true,
        }
    }

    /// The refusal that stands for both: what waiting cannot cure before what it can, the longer
    /// wait before the shorter, the first scope before the next, and long enough for either.
    pub(crate) fn worse(self, other: Self) -> Self {
        let wait_ns = self.wait_ns.max(other.wait_ns);
        let mut worse = if other.severity() > self.severity() {
            other
        } else {
            self
        };
        worse.wait_ns = if worse.permanent { 0 } else { wait_ns };
        worse
    }

    /// Nobody knows how long leases stay, so their wait, which came from elsewhere, does not count.
    fn severity(&self) -> (bool, bool, u64, usize) {
        let held = self.dimension.is_held();
        let wait_ns = if held { 0 } else { self.wait_ns };
        (self.permanent, held, wait_ns, usize::MAX - self.scope)
    }
}

/// The answer to a reservation that took nothing: both kinds mean "do not serve".
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Denied {
    /// A limit stands in the way.
    #[error("refused: {} of scope {}", .0.dimension, .0.scope)]
    Refused(Refusal),
    /// The call made no sense.
    #[error(transparent)]
    Invalid(#[from] LimiterError),
}

/// The state of one dimension of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Position of the scope in the order in which the scopes were given.
    pub scope: usize,
    /// The capacity: burst, tokens per window, open leases, or KiB.
    pub limit: u64,
    /// What is left of it.
    pub remaining: u64,
    /// Nanoseconds until all of it is back; 0 for what only the end of leases brings back.
    pub reset_ns: u64,
}

impl Meter {
    fn tighter(self, other: Self) -> Self {
        if other.slack() < self.slack() {
            other
        } else {
            self
        }
    }

    fn slack(&self) -> (u64, u64, usize) {
        (self.remaining, u64::MAX - self.reset_ns, self.scope)
    }
}

/// The tightest scope of each dimension: the fewest left, then the longest reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Requests, if any scope limits them.
    pub requests: Option<Meter>,
    /// Tokens, if any scope limits them.
    pub tokens: Option<Meter>,
    /// Open leases, if any scope limits them.
    pub concurrency: Option<Meter>,
    /// KiB that open leases hold, if any scope limits them.
    pub bytes: Option<Meter>,
}

impl Snapshot {
    pub(crate) fn tighter(self, other: Self) -> Self {
        Self {
            requests: tighter(self.requests, other.requests),
            tokens: tighter(self.tokens, other.tokens),
            concurrency: tighter(self.concurrency, other.concurrency),
            bytes: tighter(self.bytes, other.bytes),
        }
    }
}

fn tighter(one: Option<Meter>, other: Option<Meter>) -> Option<Meter> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.tighter(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_outside_the_range_are_errors() {
        let too_much = MAX_COST.cast_signed() + 1;
        let cost = |of: [i64; 4]| Cost::new(of[0], of[1], of[2], of[3]);
        for place in 0..4 {
            for outlier in [-5, too_much] {
                let mut costs = [1, 5, 2, 3];
                costs[place] = outlier;
                assert_eq!(cost(costs), Err(LimiterError::CostOutOfRange(outlier)));
            }
        }
        assert_eq!(cost([0; 4]), Err(LimiterError::NothingToReserve));
        assert!(cost([0, 0, 0, 1]).is_ok());
        let prompt = LimiterError::PromptExceedsTokens {
            prompt: 6,
            tokens: 5,
        };
        assert_eq!(cost([1, 5, 6, 0]), Err(prompt));
        assert!(cost([1, too_much - 1, 0, too_much - 1]).is_ok());
    }

    #[test]
    fn the_worse_refusal_is_the_one_that_waiting_cures_least() {
        let short = Refusal::until(Dimension::Requests, 5);
        let long = Refusal::until(Dimension::Tokens, 9);
        let never = Refusal::never(Dimension::Tokens);
        assert_eq!(short.worse(long), long);
        assert_eq!(long.worse(short), long);
        assert_eq!(never.worse(long), never);
        for held in [Dimension::Concurrency, Dimension::Bytes] {
            let busy = Refusal::until(held, 0);
            assert_eq!(long.worse(busy), Refusal::until(held, 9));
            assert_eq!(busy.worse(never), never);
        }
    }
}
