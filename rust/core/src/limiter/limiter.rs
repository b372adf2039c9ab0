use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::decision::{Cost, Denied, Refusal, Snapshot, units};
use super::entry::Ending;
use super::error::LimiterError;
use super::lease::{HoldRef, Lease};
use super::quota::Quota;
use super::scopes::{MAX_SCOPES, Scope, ScopeSet};
use super::store::Shard;

static NEXT_LIMITER: AtomicU64 = AtomicU64::new(1);

/// The bounds of a limiter.
#[derive(Clone, Copy, Debug)]
pub struct LimiterOptions {
    /// Keys that are kept, divided evenly among the shards; the others of a shard share one
    /// overflow key per quota. One that gets a place of its own later has used what that one has;
    /// what its open leases hold stays with that one.
    pub max_keys: usize,
    /// Independent locks.
    pub shards: usize,
    /// Nanoseconds after which a lease that was neither settled nor renewed expires.
    pub lease_ttl_ns: u64,
}

impl Default for LimiterOptions {
    fn default() -> Self {
        Self {
            max_keys: 100_000,
            shards: 8,
            lease_ttl_ns: 900_000_000_000,
        }
    }
}

/// Several keys checked together, all or nothing, and charged at once.
///
/// Every method takes the clock's reading; none waits, but for the short locks of the shards,
/// which are always taken in ascending order. Readings of several threads may come out of order: one
/// that lies behind another by more than a key's longest window is taken for a clock that was
/// set back.
#[derive(Debug)]
pub struct Limiter {
    id: u64,
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    lease_ttl_ns: u64,
}

/// What belongs to one shard.
trait Sharded {
    fn shard(&self) -> u16;
}

impl Sharded for Scope {
    fn shard(&self) -> u16 {
        self.shard
    }
}

impl Sharded for HoldRef {
    fn shard(&self) -> u16 {
        self.shard
    }
}

/// The locked shards of some members, in ascending order.
struct Locked<'a>([Option<MutexGuard<'a, Shard>>; MAX_SCOPES]);

impl Locked<'_> {
    /// Each shard with those of `members` that live there.
    fn groups<'m, T: Sharded>(
        &mut self,
        members: &'m [T],
    ) -> impl Iterator<Item = (&mut Shard, &'m [T])> {
        self.0
            .iter_mut()
            .flatten()
            .map(|guard| &mut **guard)
            .zip(groups(members))
    }
}

fn groups<T: Sharded>(members: &[T]) -> impl Iterator<Item = &[T]> {
    members.chunk_by(|one, next| one.shard() == next.shard())
}

/// Where the keys of one decision are: the same place twice when both are in the overflow key.
struct Places {
    places: [u32; MAX_SCOPES],
    len: usize,
}

impl Limiter {
    /// An empty limiter.
    ///
    /// # Errors
    /// No shard, more than 65536 shards, or fewer keys than shards.
    pub fn new(options: LimiterOptions) -> Result<Self, LimiterError> {
        let LimiterOptions {
            max_keys,
            shards,
            lease_ttl_ns,
        } = options;
        if shards == 0 || shards > 1 << 16 || max_keys < shards {
            return Err(LimiterError::NoRoom);
        }
        let capacity = max_keys.div_ceil(shards).min(u32::MAX as usize / 2);
        Ok(Self {
            id: NEXT_LIMITER.fetch_add(1, Ordering::Relaxed),
            shards: (0..shards)
                .map(|_| Mutex::new(Shard::new(capacity)))
                .collect(),
            hasher: RandomState::new(),
            lease_ttl_ns,
        })
    }

    /// Resolves keys with their quotas, for any number of decisions.
    ///
    /// # Errors
    /// No scope, more than [`MAX_SCOPES`], or one key twice.
    pub fn scopes<K: Into<Arc<str>>>(
        &self,
        scopes: impl IntoIterator<Item = (K, Arc<Quota>)>,
    ) -> Result<ScopeSet, LimiterError> {
        let resolve = |(position, (key, quota)): (usize, (K, Arc<Quota>))| {
            let key = key.into();
            let shard = self.hasher.hash_one(&*key) % self.shards.len() as u64;
            Scope::new(key, quota, shard as u16, position)
        };
        ScopeSet::new(
            self.id,
            scopes.into_iter().enumerate().map(resolve).collect(),
        )
    }

    /// Takes `cost` from every scope and opens a lease on it, or takes nothing.
    ///
    /// # Errors
    /// [`Denied::Refused`] with the scope and the wait, [`Denied::Invalid`] for foreign scopes.
    pub fn reserve(&self, scopes: &ScopeSet, cost: Cost, reading: u64) -> Result<Lease, Denied> {
        let (mut locked, places) = self.admit(scopes, &cost, true, reading)?;
        let mut lease = Lease::new(self.id, cost);
        let mut place = places.iter();
        for (shard, members) in locked.groups(&scopes.scopes) {
            for (scope, place) in members.iter().zip(&mut place) {
                if let Some(place) = place {
                    lease.push(shard.open(scope.shard, place, &cost, self.lease_ttl_ns));
                }
            }
        }
        Ok(lease)
    }

    /// Takes `cost` from every scope for good, or takes nothing; what leases hold is left alone.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub fn take(&self, scopes: &ScopeSet, cost: Cost, reading: u64) -> Result<(), Denied> {
        let (mut locked, places) = self.admit(scopes, &cost, false, reading)?;
        let mut place = places.iter();
        for (shard, members) in locked.groups(&scopes.scopes) {
            for place in (&mut place).take(members.len()).flatten() {
                shard.entry(place).take(&cost);
            }
        }
        Ok(())
    }

    /// Ends a lease with the tokens that were really used; false if it had ended before.
    ///
    /// What was not used goes back to the slot of the reservation; what was used beyond it is
    /// charged now and may exceed the limit.
    ///
    /// # Errors
    /// A cost outside the range, or a foreign lease.
    pub fn settle(&self, lease: &Lease, actual: i64, reading: u64) -> Result<bool, LimiterError> {
        self.end(lease, Ending::Used(units(actual)?), reading)
    }

    /// Ends a lease whose stream was given up after `emitted` tokens: those and the prompt are
    /// charged; false if it had ended before.
    ///
    /// # Errors
    /// As [`Self::settle`].
    pub fn cancel(&self, lease: &Lease, emitted: i64, reading: u64) -> Result<bool, LimiterError> {
        let used = lease.cost().prompt() + units(emitted)?;
        self.end(lease, Ending::Used(used), reading)
    }

    /// Ends a lease on which nothing was served: tokens and requests go back like what it held;
    /// false if it had ended before.
    ///
    /// At the instant of the reservation all is as if it had never been. Later, tokens go back to
    /// their slot if it is still in the ring, and requests less what time has given back since.
    ///
    /// # Errors
    /// A foreign lease.
    pub fn undo(&self, lease: &Lease, reading: u64) -> Result<bool, LimiterError> {
        self.end(lease, Ending::Undone, reading)
    }

    /// Starts the time to live of an open lease again; false if it has ended.
    ///
    /// # Errors
    /// A foreign lease.
    pub fn renew(&self, lease: &Lease, reading: u64) -> Result<bool, LimiterError> {
        let (mut locked, open) = self.lock_lease(lease, reading)?;
        if open {
            for (shard, holds) in locked.groups(lease.holds()) {
                holds
                    .iter()
                    .for_each(|hold| shard.renew(*hold, self.lease_ttl_ns));
            }
        }
        Ok(open)
    }

    /// What is left in the tightest scope of each dimension; takes nothing and makes no key.
    ///
    /// # Errors
    /// Foreign scopes.
    pub fn peek(&self, scopes: &ScopeSet, reading: u64) -> Result<Snapshot, LimiterError> {
        self.own(scopes.limiter)?;
        let mut locked = self.lock(&scopes.scopes);
        let mut snapshot = Snapshot::default();
        for (shard, members) in locked.groups(&scopes.scopes) {
            shard.expire(reading, self.lease_ttl_ns);
            for scope in members {
                snapshot = snapshot.tighter(shard.peek(scope, reading));
            }
        }
        Ok(snapshot)
    }

    /// Keys that have state of their own.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).keys()).sum()
    }

    /// Open leases, counted once for each of their keys.
    #[must_use]
    pub fn holds(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).leases()).sum()
    }

    fn own(&self, limiter: u64) -> Result<(), LimiterError> {
        if limiter == self.id {
            Ok(())
        } else {
            Err(LimiterError::ForeignLimiter)
        }
    }

    /// Locks, in ascending order, the shards of members that are in ascending order.
    fn lock<T: Sharded>(&self, members: &[T]) -> Locked<'_> {
        let mut groups = groups(members);
        Locked(std::array::from_fn(|_| {
            let shard = groups.next()?.first()?.shard();
            Some(lock(&self.shards[usize::from(shard)]))
        }))
    }

    /// Checks every dimension of every scope; on success the shards are still locked.
    #[inline(always)] // moving the guards costs as much as the checks do
    fn admit<'a>(
        &'a self,
        scopes: &ScopeSet,
        cost: &Cost,
        lease: bool,
        reading: u64,
    ) -> Result<(Locked<'a>, Places), Denied> {
        self.own(scopes.limiter)?;
        let mut locked = self.lock(&scopes.scopes);
        let mut places = Places {
            places: [u32::MAX; MAX_SCOPES],
            len: 0,
        };
        let mut refusal: Option<Refusal> = None;
        for (shard, members) in locked.groups(&scopes.scopes) {
            shard.expire(reading, self.lease_ttl_ns);
            shard.sweep(reading, members.len());
            let first = places.len;
            for scope in members {
                let place = shard.resolve(scope, reading);
                places.push(place, first);
                if let Some(mut found) = shard.entry(place).refuses(cost, lease, reading) {
                    found.scope = scope.position;
                    refusal = Some(refusal.map_or(found, |worst| worst.worse(found)));
                }
            }
        }
        match refusal {
            Some(refusal) => Err(Denied::Refused(refusal)),
            None => Ok((locked, places)),
        }
    }

    fn end(&self, lease: &Lease, ending: Ending, reading: u64) -> Result<bool, LimiterError> {
        let (mut locked, open) = self.lock_lease(lease, reading)?;
        let ending = open.then_some(ending);
        for (shard, holds) in locked.groups(lease.holds()) {
            holds
                .iter()
                .for_each(|hold| shard.close(*hold, lease.cost(), ending, reading));
        }
        Ok(open)
    }

    /// Locks the shards of a lease and says whether all of it is open.
    fn lock_lease(&self, lease: &Lease, reading: u64) -> Result<(Locked<'_>, bool), LimiterError> {
        self.own(lease.limiter)?;
        let mut locked = self.lock(lease.holds());
        let mut open = true;
        for (shard, holds) in locked.groups(lease.holds()) {
            shard.expire(reading, self.lease_ttl_ns);
            open &= holds.iter().all(|hold| shard.is_open(*hold));
        }
        Ok((locked, open))
    }
}

impl Places {
    /// Adds a place; one that is already there since `first` becomes nothing, to be charged once.
    fn push(&mut self, place: u32, first: usize) {
        let known = self.places[first..self.len].contains(&place);
        self.places[self.len] = if known { u32::MAX } else { place };
        self.len += 1;
    }

    fn iter(&self) -> impl Iterator<Item = Option<u32>> {
        self.places[..self.len]
            .iter()
            .map(|place| (*place != u32::MAX).then_some(*place))
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
