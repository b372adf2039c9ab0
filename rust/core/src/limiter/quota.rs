use super::decision::MAX_COST;
use super::error::LimiterError;

/// The longest period or window: about 2.28 years in nanoseconds.
pub const MAX_PERIOD_NS: u64 = 1 << 56;
/// The most slots that a window can be cut into.
pub const MAX_SLOTS: usize = 64;

/// A token bucket: `rate` requests come back every `period_ns`, `burst` fit in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestRate {
    rate: u64,
    period_ns: u64,
    burst: u64,
}

impl RequestRate {
    /// A bucket of `burst` requests, refilled by `rate` requests per `period_ns`.
    ///
    /// A rate of 0 refuses everything, whatever the burst.
    ///
    /// # Errors
    /// A period outside `1..=MAX_PERIOD_NS` or a burst above [`MAX_COST`].
    pub const fn new(rate: u64, period_ns: u64, burst: u64) -> Result<Self, LimiterError> {
        if period_ns == 0 || period_ns > MAX_PERIOD_NS {
            return Err(LimiterError::PeriodOutOfRange(period_ns));
        }
        if burst > MAX_COST {
            return Err(LimiterError::LimitOutOfRange(burst));
        }
        Ok(Self {
            rate,
            period_ns,
            burst,
        })
    }

    /// Requests that come back in one period.
    #[must_use]
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// Nanoseconds of the period.
    #[must_use]
    pub const fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Requests that fit into the bucket.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// The full level, in requests × `period_ns`.
    pub(crate) const fn capacity(&self) -> u128 {
        self.burst as u128 * self.period_ns as u128
    }
}

/// A sliding window: at most `limit` tokens in any `window_ns`, counted in slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenWindow {
    limit: u64,
    window_ns: u64,
    slots: usize,
    slot_ns: u64,
}

impl TokenWindow {
    /// How many slots a window has when nobody says otherwise: 98 % use under steady overload.
    pub const DEFAULT_SLOTS: usize = 16;

    /// At most `limit` tokens in any `window_ns`, cut into `slots` equal parts.
    ///
    /// # Errors
    /// A window outside `1..=MAX_PERIOD_NS`, slots outside `1..=MAX_SLOTS`, a limit above
    /// [`MAX_COST`].
    pub const fn new(limit: u64, window_ns: u64, slots: usize) -> Result<Self, LimiterError> {
        if window_ns == 0 || window_ns > MAX_PERIOD_NS {
            return Err(LimiterError::PeriodOutOfRange(window_ns));
        }
        if slots == 0 || slots > MAX_SLOTS {
            return Err(LimiterError::SlotsOutOfRange(slots));
        }
        if limit > MAX_COST {
            return Err(LimiterError::LimitOutOfRange(limit));
        }
        // Rounded up: slots of a length that does not divide the window cover more, never less.
        Ok(Self {
            limit,
            window_ns,
            slots,
            slot_ns: window_ns.div_ceil(slots as u64),
        })
    }

    /// Tokens in any window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Nanoseconds of the window.
    #[must_use]
    pub const fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Parts that the window is cut into; the ring has one more.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// Nanoseconds of one slot.
    pub(crate) const fn slot_ns(&self) -> u64 {
        self.slot_ns
    }

    /// Slots in the ring: the window's, and the oldest, which is only partly in it.
    pub(crate) const fn ring(&self) -> usize {
        self.slots + 1
    }

    /// Whether a ring made for `other` can go on under this window.
    pub(crate) const fn same_ring(&self, other: &Self) -> bool {
        self.slots == other.slots && self.slot_ns == other.slot_ns
    }
}

/// What one key may use; a dimension that is `None` has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Quota {
    requests: Option<RequestRate>,
    tokens: Option<TokenWindow>,
    concurrency: Option<u64>,
    kibibytes: Option<u64>,
}

impl Quota {
    /// A quota of these dimensions; `concurrency` counts open leases, `kibibytes` what they hold.
    ///
    /// # Errors
    /// A concurrency or kibibytes above [`MAX_COST`].
    pub const fn new(
        requests: Option<RequestRate>,
        tokens: Option<TokenWindow>,
        concurrency: Option<u64>,
        kibibytes: Option<u64>,
    ) -> Result<Self, LimiterError> {
        match (concurrency, kibibytes) {
            (Some(limit), _) | (_, Some(limit)) if limit > MAX_COST => {
                Err(LimiterError::LimitOutOfRange(limit))
            }
            _ => Ok(Self {
                requests,
                tokens,
                concurrency,
                kibibytes,
            }),
        }
    }

    /// The bucket of requests.
    #[must_use]
    pub const fn requests(&self) -> Option<&RequestRate> {
        self.requests.as_ref()
    }

    /// The window of tokens.
    #[must_use]
    pub const fn tokens(&self) -> Option<&TokenWindow> {
        self.tokens.as_ref()
    }

    /// Leases that may be open at once.
    #[must_use]
    pub const fn concurrency(&self) -> Option<u64> {
        self.concurrency
    }

    /// Memory in KiB that open leases may hold together.
    #[must_use]
    pub const fn kibibytes(&self) -> Option<u64> {
        self.kibibytes
    }

    /// How far a saved time may lie ahead before it counts as now.
    pub(crate) fn window_ns(&self) -> u64 {
        let period = self.requests.map_or(0, |rate| rate.period_ns);
        let window = self.tokens.map_or(0, |tokens| tokens.window_ns);
        period.max(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_never_cover_less_than_the_window() {
        for window_ns in 1..200 {
            for slots in 1..=MAX_SLOTS {
                let window = TokenWindow::new(1, window_ns, slots).unwrap();
                assert!(window.slot_ns() * slots as u64 >= window_ns);
            }
        }
    }

    #[test]
    fn impossible_quotas_are_errors() {
        let period = RequestRate::new(1, 0, 1);
        assert_eq!(period, Err(LimiterError::PeriodOutOfRange(0)));
        let burst = RequestRate::new(1, 1, MAX_COST + 1);
        assert_eq!(burst, Err(LimiterError::LimitOutOfRange(MAX_COST + 1)));
        assert_eq!(
            TokenWindow::new(1, 1, 0),
            Err(LimiterError::SlotsOutOfRange(0))
        );
        assert_eq!(
            TokenWindow::new(1, 1, 65),
            Err(LimiterError::SlotsOutOfRange(65))
        );
        let window = TokenWindow::new(1, MAX_PERIOD_NS + 1, 16);
        assert_eq!(
            window,
            Err(LimiterError::PeriodOutOfRange(MAX_PERIOD_NS + 1))
        );
        let too_much = Some(MAX_COST + 1);
        let outlier = Err(LimiterError::LimitOutOfRange(MAX_COST + 1));
        assert_eq!(Quota::new(None, None, too_much, None), outlier);
        assert_eq!(Quota::new(None, None, None, too_much), outlier);
        assert_eq!(Quota::new(None, None, Some(1), too_much), outlier);
        assert!(Quota::new(None, None, Some(MAX_COST), Some(MAX_COST)).is_ok());
    }
}
