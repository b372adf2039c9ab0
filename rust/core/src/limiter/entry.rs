use std::sync::Arc;

use super::bucket::Bucket;
use super::decision::{Cost, Dimension, Meter, Refusal, Snapshot};
use super::held::Held;
use super::quota::Quota;
use super::timeline::Timeline;
use super::window::Window;

/// Whose state an entry keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nobody's: the place is free.
    Vacant,
    /// One key's.
    Key(Arc<str>),
    /// That of all keys of one quota that found no room.
    Overflow,
}

/// The state of one key.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    /// Whether a decision asked for the key since the sweep looked at it.
    pub(crate) referenced: bool,
    quota: Arc<Quota>,
    time: Timeline,
    bucket: Option<Bucket>,
    window: Option<Window>,
    held: Held,
    /// Counts the rings of this key: a lease finds its slot only in the ring it was charged to.
    epoch: u32,
    /// Counts the request rates of this key, as `epoch` does the rings.
    rates: u32,
}

/// When and where a lease was charged in one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    epoch: u32,
    rates: u32,
    slot: u64,
    /// Time of the key.
    at: u64,
    /// Kept here, as an expired lease has nobody to tell its cost.
    kibibytes: u64,
}

/// What a lease turns out to have been.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    /// A request that used these tokens.
    Used(u64),
    /// Nothing: no request was served.
    Undone,
}

impl Entry {
    pub(crate) fn new(owner: Owner, quota: &Arc<Quota>, reading: u64) -> Self {
        Self {
            owner,
            referenced: false,
            quota: Arc::clone(quota),
            time: Timeline::starting(reading),
            bucket: quota.requests().map(Bucket::full),
            window: quota.tokens().map(|window| Window::empty(window, reading)),
            held: Held::default(),
            epoch: 0,
            rates: 0,
        }
    }

    /// The same for a key that may have used all of it: what leases hold stays behind.
    pub(crate) fn heir(&self, owner: Owner) -> Self {
        Self {
            owner,
            referenced: false,
            quota: Arc::clone(&self.quota),
            time: self.time,
            bucket: self.bucket,
            window: self.window.clone(),
            held: Held::default(),
            epoch: 0,
            rates: 0,
        }
    }

    pub(crate) fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// Lets time pass up to the clock's `reading`.
    pub(crate) fn advance(&mut self, reading: u64) {
        let elapsed = self.time.observe(reading, self.quota.window_ns());
        if elapsed == 0 {
            return;
        }
        if let (Some(rate), Some(bucket)) = (self.quota.requests(), &mut self.bucket) {
            bucket.refill(rate, elapsed);
        }
        if let (Some(tokens), Some(window)) = (self.quota.tokens(), &mut self.window) {
            window.roll(tokens, self.time.now());
        }
    }

    /// Is an idle key made anew: answers must not depend on when the sweep comes by.
    pub(crate) fn restart(&mut self, reading: u64) {
        self.time = Timeline::starting(reading);
        if let (Some(tokens), Some(window)) = (self.quota.tokens(), &mut self.window) {
            window.restart(tokens, reading);
        }
    }

    /// Goes on under another quota: nothing that was used is forgotten.
    pub(crate) fn adopt(&mut self, quota: &Arc<Quota>) {
        if Arc::ptr_eq(&self.quota, quota) || self.quota == *quota {
            return;
        }
        self.adopt_bucket(quota);
        self.adopt_window(quota);
        self.quota = Arc::clone(quota);
    }

    /// Why `cost` cannot be taken at `reading`, if so; `lease` also asks for what an open lease
    /// holds.
    pub(crate) fn refuses(&self, cost: &Cost, lease: bool, reading: u64) -> Option<Refusal> {
        let candidates = [
            self.refuses_requests(cost.requests(), reading),
            self.refuses_tokens(cost.tokens(), reading),
            if lease {
                self.held.refuses(&self.quota, cost.kibibytes())
            } else {
                None
            },
        ];
        candidates.into_iter().flatten().reduce(Refusal::worse)
    }

    /// Takes what [`Self::refuses`] did not refuse.
    pub(crate) fn take(&mut self, cost: &Cost) {
        if let (Some(rate), Some(bucket)) = (self.quota.requests(), &mut self.bucket) {
            bucket.take(rate, cost.requests());
        }
        if let Some(window) = &mut self.window {
            window.charge(cost.tokens());
        }
    }

    /// Opens a lease on what was just taken.
    pub(crate) fn open(&mut self, cost: &Cost) -> Charge {
        self.held.take(cost.kibibytes());
        Charge {
            epoch: self.epoch,
            rates: self.rates,
            slot: self.window.as_ref().map_or(0, Window::index),
            at: self.time.now(),
            kibibytes: cost.kibibytes(),
        }
    }

    /// Ends a lease at the reserved cost.
    pub(crate) const fn release(&mut self, charge: &Charge) {
        self.held.release(charge.kibibytes);
    }

    /// Replaces what was reserved by what the ending says.
    pub(crate) fn correct(&mut self, charge: Charge, cost: &Cost, ending: Ending) {
        match ending {
            Ending::Used(tokens) => self.correct_tokens(charge, cost.tokens(), tokens),
            Ending::Undone => {
                self.correct_tokens(charge, cost.tokens(), 0);
                self.give_back_requests(charge, cost.requests());
            }
        }
    }

    fn correct_tokens(&mut self, charge: Charge, reserved: u64, actual: u64) {
        let Some(window) = &mut self.window else {
            return;
        };
        if actual > reserved {
            window.charge(actual - reserved);
        } else if charge.epoch == self.epoch {
            window.credit(charge.slot, reserved - actual);
        }
    }

    fn give_back_requests(&mut self, charge: Charge, requests: u64) {
        if charge.rates != self.rates {
            return;
        }
        if let (Some(rate), Some(bucket)) = (self.quota.requests(), &mut self.bucket) {
            bucket.give_back(rate, requests, self.time.now() - charge.at);
        }
    }

    /// Whether forgetting this key would change nothing.
    pub(crate) fn is_idle(&self) -> bool {
        let full = match (self.quota.requests(), &self.bucket) {
            (Some(rate), Some(bucket)) => bucket.is_full(rate),
            _ => true,
        };
        full && self.held.is_empty() && self.window.as_ref().is_none_or(Window::is_empty)
    }

    /// Gives back the memory of a forgotten key.
    pub(crate) fn clear(&mut self) {
        self.window = None;
    }

    /// What is left, as the scope at position `scope`.
    pub(crate) fn meters(&self, scope: usize, reading: u64) -> Snapshot {
        let wait = |delay| {
            if delay == 0 {
                0
            } else {
                self.time.wait(reading, delay)
            }
        };
        let requests = self.quota.requests().zip(self.bucket.as_ref());
        let tokens = self.quota.tokens().zip(self.window.as_ref());
        Snapshot {
            requests: requests.map(|(rate, bucket)| Meter {
                scope,
                limit: rate.burst(),
                remaining: bucket.remaining(rate),
                reset_ns: wait(bucket.reset_ns(rate)),
            }),
            tokens: tokens.map(|(tokens, window)| Meter {
                scope,
                limit: tokens.limit(),
                remaining: window.remaining(tokens),
                reset_ns: wait(window.reset_ns(tokens, self.time.now())),
            }),
            concurrency: self.held.concurrency(&self.quota, scope),
            bytes: self.held.bytes(&self.quota, scope),
        }
    }

    fn refuses_requests(&self, requests: u64, reading: u64) -> Option<Refusal> {
        let (rate, bucket) = self.quota.requests().zip(self.bucket.as_ref())?;
        if rate.rate() == 0 || requests > rate.burst() {
            return Some(Refusal::never(Dimension::Requests));
        }
        self.refuses_for(Dimension::Requests, bucket.wait_ns(rate, requests), reading)
    }

    fn refuses_tokens(&self, tokens: u64, reading: u64) -> Option<Refusal> {
        let (limits, window) = self.quota.tokens().zip(self.window.as_ref())?;
        if tokens > limits.limit() {
            return Some(Refusal::never(Dimension::Tokens));
        }
        let delay = window.wait_ns(limits, tokens, self.time.now());
        self.refuses_for(Dimension::Tokens, delay, reading)
    }

    fn refuses_for(&self, dimension: Dimension, delay: u64, reading: u64) -> Option<Refusal> {
        (delay > 0).then(|| Refusal::until(dimension, self.time.wait(reading, delay)))
    }

    fn adopt_bucket(&mut self, quota: &Quota) {
        if self.quota.requests() == quota.requests() {
            return;
        }
        self.bucket = quota.requests().map(|new| self.adopted_bucket(new));
        self.rates = self.rates.wrapping_add(1);
    }

    fn adopted_bucket(&self, new: &super::RequestRate) -> Bucket {
        match (self.quota.requests(), self.bucket) {
            (Some(old), Some(mut bucket)) => {
                bucket.adopt(old, new);
                bucket
            }
            _ => Bucket::full(new),
        }
    }

    fn adopt_window(&mut self, quota: &Quota) {
        let same_ring = self
            .quota
            .tokens()
            .zip(quota.tokens())
            .map(|(old, new)| old.same_ring(new));
        if same_ring == Some(true) {
            return;
        }
        let now = self.time.now();
        self.window = quota.tokens().map(|new| {
            self.window
                .as_ref()
                .map_or_else(|| Window::empty(new, now), |ring| ring.adopt(new, now))
        });
        self.epoch = self.epoch.wrapping_add(1);
    }
}
