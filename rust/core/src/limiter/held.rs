use super::decision::{Dimension, Meter, Refusal};
use super::quota::Quota;

/// What the open leases of one key hold: given back by the end of a lease, never by time.
///
/// Counted whatever the quota limits, so that a quota that is adopted finds what is in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    leases: u64,
    kibibytes: u64,
}

impl Held {
    /// Why a lease that holds `kibibytes` cannot be opened, if so.
    pub(crate) fn refuses(&self, quota: &Quota, kibibytes: u64) -> Option<Refusal> {
        let leases = self.refuses_lease(quota);
        let bytes = self.refuses_bytes(quota, kibibytes);
        leases.into_iter().chain(bytes).reduce(Refusal::worse)
    }

    pub(crate) const fn take(&mut self, kibibytes: u64) {
        self.leases += 1;
        self.kibibytes = self.kibibytes.saturating_add(kibibytes);
    }

    pub(crate) const fn release(&mut self, kibibytes: u64) {
        self.leases = self.leases.saturating_sub(1);
        self.kibibytes = self.kibibytes.saturating_sub(kibibytes);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.leases == 0
    }

    pub(crate) fn concurrency(&self, quota: &Quota, scope: usize) -> Option<Meter> {
        let limit = quota.concurrency()?;
        Some(meter(scope, limit, self.leases))
    }

    pub(crate) fn bytes(&self, quota: &Quota, scope: usize) -> Option<Meter> {
        let limit = quota.kibibytes()?;
        Some(meter(scope, limit, self.kibibytes))
    }

    fn refuses_lease(&self, quota: &Quota) -> Option<Refusal> {
        match quota.concurrency()? {
            0 => Some(Refusal::never(Dimension::Concurrency)),
            limit if self.leases < limit => None,
            _ => Some(Refusal::until(Dimension::Concurrency, 0)),
        }
    }

    /// Who asks for none is not refused, not even when a smaller quota was adopted.
    fn refuses_bytes(&self, quota: &Quota, kibibytes: u64) -> Option<Refusal> {
        let limit = quota.kibibytes()?;
        if kibibytes > limit {
            return Some(Refusal::never(Dimension::Bytes));
        }
        let fits = kibibytes == 0 || self.kibibytes.saturating_add(kibibytes) <= limit;
        (!fits).then(|| Refusal::until(Dimension::Bytes, 0))
    }
}

const fn meter(scope: usize, limit: u64, held: u64) -> Meter {
    Meter {
        scope,
        limit,
        remaining: limit.saturating_sub(held),
        reset_ns: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(concurrency: Option<u64>, kibibytes: Option<u64>) -> Quota {
        Quota::new(None, None, concurrency, kibibytes).unwrap()
    }

    #[test]
    fn what_does_not_fit_beside_the_others_waits_and_what_never_fits_does_not() {
        let quota = quota(None, Some(10));
        let mut held = Held::default();
        held.take(7);
        assert_eq!(held.refuses(&quota, 3), None);
        let busy = Some(Refusal::until(Dimension::Bytes, 0));
        assert_eq!(held.refuses(&quota, 4), busy);
        assert_eq!(held.refuses(&quota, 10), busy);
        let never = Some(Refusal::never(Dimension::Bytes));
        assert_eq!(held.refuses(&quota, 11), never);
        held.release(7);
        assert_eq!(held.refuses(&quota, 10), None);
        assert!(held.is_empty());
    }

    #[test]
    fn a_smaller_quota_finds_what_is_held_and_refuses_all_but_nothing() {
        let mut held = Held::default();
        held.take(8);
        let smaller = quota(None, Some(5));
        assert_eq!(held.bytes(&smaller, 2), Some(meter(2, 5, 8)));
        assert_eq!(held.bytes(&smaller, 2).unwrap().remaining, 0);
        let busy = Some(Refusal::until(Dimension::Bytes, 0));
        assert_eq!(held.refuses(&smaller, 1), busy);
        assert_eq!(held.refuses(&smaller, 0), None);
    }

    #[test]
    fn leases_are_named_before_bytes_when_both_are_in_the_way() {
        let quota = quota(Some(1), Some(10));
        let mut held = Held::default();
        held.take(10);
        let busy = Some(Refusal::until(Dimension::Concurrency, 0));
        assert_eq!(held.refuses(&quota, 1), busy);
        let never = Some(Refusal::never(Dimension::Bytes));
        assert_eq!(held.refuses(&quota, 11), never);
    }
}
