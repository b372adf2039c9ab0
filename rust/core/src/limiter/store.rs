use std::collections::HashMap;
use std::sync::Arc;

use super::decision::{Cost, Snapshot};
use super::entry::{Ending, Entry, Owner};
use super::lease::{Hold, HoldRef, Holds};
use super::quota::Quota;
use super::scopes::Scope;
use super::timeline::Timeline;

/// Keys looked at per key of an operation: a key is forgotten at the second look, so that three
/// outrun one new key per operation.
const SWEEP: usize = 3;
/// Keys looked at per operation while there may be no room for a new key.
const SWEEP_WHEN_FULL: usize = 16;

/// Keys, their state and the leases on them, behind one lock.
///
/// Aligned so that threads in different shards never write to the same pair of cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    keys: HashMap<Arc<str>, u32>,
    overflow: HashMap<Quota, u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    holds: Holds,
    time: Timeline,
    capacity: usize,
    /// Where the sweep goes on.
    cursor: usize,
}

impl Shard {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            keys: HashMap::new(),
            overflow: HashMap::new(),
            entries: Vec::new(),
            free: Vec::new(),
            holds: Holds::new(),
            time: Timeline::starting(0),
            capacity,
            cursor: 0,
        }
    }

    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn leases(&self) -> usize {
        self.holds.len()
    }

    /// Ends the leases that have expired by `reading`, at their reserved cost.
    pub(crate) fn expire(&mut self, reading: u64, ttl_ns: u64) {
        self.time.observe(reading, ttl_ns);
        while let Some(hold) = self.holds.pop_expired(self.time.now()) {
            self.entries[hold.entry as usize].release(&hold.charge);
        }
    }

    /// Forgets idle keys, a few at a time, and makes room for `new` keys if there is none.
    ///
    /// While there is room a key that was used since the last look is spared once (the clock
    /// algorithm): its next use need not make it again.
    ///
    /// Only before keys are resolved: a place that is in use may be idle and must not move.
    pub(crate) fn sweep(&mut self, reading: u64, new: usize) {
        let full = self.keys.len() + new > self.capacity;
        let budget = if full { SWEEP_WHEN_FULL } else { SWEEP * new };
        for _ in 0..budget.min(self.entries.len()) {
            self.cursor = if self.cursor + 1 < self.entries.len() {
                self.cursor + 1
            } else {
                0
            };
            let entry = &mut self.entries[self.cursor];
            if entry.owner == Owner::Vacant {
                continue;
            }
            entry.advance(reading);
            let spared = std::mem::take(&mut entry.referenced) && !full;
            if !spared && entry.is_idle() {
                self.forget(self.cursor);
            }
        }
    }

    /// The place of the scope's key, found or made, with its time at `reading`.
    pub(crate) fn resolve(&mut self, scope: &Scope, reading: u64) -> u32 {
        let place = self
            .find(scope)
            .unwrap_or_else(|| self.make(scope, reading));
        let entry = &mut self.entries[place as usize];
        entry.advance(reading);
        if entry.is_idle() {
            entry.restart(reading);
        }
        entry.adopt(&scope.quota);
        entry.referenced = true;
        place
    }

    /// The place of the scope's key, if it has one.
    pub(crate) fn find(&self, scope: &Scope) -> Option<u32> {
        let guess = scope.place();
        if let Some(Entry {
            owner: Owner::Key(key),
            ..
        }) = self.entries.get(guess as usize)
            && (Arc::ptr_eq(key, &scope.key) || *key == scope.key)
        {
            return Some(guess);
        }
        let place = self.keys.get(&scope.key).copied()?;
        scope.found_at(place);
        Some(place)
    }

    /// What is left in one scope; makes no key.
    pub(crate) fn peek(&mut self, scope: &Scope, reading: u64) -> Snapshot {
        let Some(place) = self.find(scope) else {
            let mut new = self.new_entry(Owner::Vacant, &scope.quota, reading);
            new.advance(reading);
            return new.meters(scope.position, reading);
        };
        let entry = self.entry(place);
        entry.advance(reading);
        entry.adopt(&scope.quota);
        entry.meters(scope.position, reading)
    }

    pub(crate) fn entry(&mut self, place: u32) -> &mut Entry {
        &mut self.entries[place as usize]
    }

    /// Takes `cost`, which is not refused, and opens a lease on it.
    pub(crate) fn open(&mut self, shard: u16, place: u32, cost: &Cost, ttl_ns: u64) -> HoldRef {
        let entry = &mut self.entries[place as usize];
        entry.take(cost);
        let charge = entry.open(cost);
        let expires_at = self.time.now().saturating_add(ttl_ns);
        self.holds.insert(
            shard,
            Hold {
                entry: place,
                charge,
            },
            expires_at,
        )
    }

    pub(crate) fn is_open(&self, hold: HoldRef) -> bool {
        self.holds.is_open(hold)
    }

    pub(crate) fn renew(&mut self, hold: HoldRef, ttl_ns: u64) {
        self.holds
            .renew(hold, self.time.now().saturating_add(ttl_ns));
    }

    /// Ends a lease on `cost`; without an `ending` that cost stays charged.
    pub(crate) fn close(
        &mut self,
        hold: HoldRef,
        cost: &Cost,
        ending: Option<Ending>,
        reading: u64,
    ) {
        let Some(Hold { entry, charge }) = self.holds.remove(hold) else {
            return;
        };
        let entry = &mut self.entries[entry as usize];
        entry.release(&charge);
        if let Some(ending) = ending {
            entry.advance(reading);
            entry.correct(charge, cost, ending);
        }
    }

    fn make(&mut self, scope: &Scope, reading: u64) -> u32 {
        if self.keys.len() >= self.capacity {
            return self.overflow(&scope.quota, reading);
        }
        let owner = Owner::Key(Arc::clone(&scope.key));
        let place = self.place(self.new_entry(owner, &scope.quota, reading));
        self.keys.insert(Arc::clone(&scope.key), place);
        scope.found_at(place);
        place
    }

    /// The state of a key that has none: it may be the one that used what the overflow key did.
    fn new_entry(&self, owner: Owner, quota: &Arc<Quota>, reading: u64) -> Entry {
        match self.overflow.get(&**quota) {
            Some(place) => self.entries[*place as usize].heir(owner),
            None => Entry::new(owner, quota, reading),
        }
    }

    fn overflow(&mut self, quota: &Arc<Quota>, reading: u64) -> u32 {
        if let Some(place) = self.overflow.get(&**quota) {
            return *place;
        }
        let place = self.place(Entry::new(Owner::Overflow, quota, reading));
        self.overflow.insert(**quota, place);
        place
    }

    fn place(&mut self, entry: Entry) -> u32 {
        if let Some(place) = self.free.pop() {
            self.entries[place as usize] = entry;
            return place;
        }
        self.entries.push(entry);
        self.entries.len() as u32 - 1
    }

    fn forget(&mut self, place: usize) {
        let entry = &mut self.entries[place];
        match std::mem::replace(&mut entry.owner, Owner::Vacant) {
            Owner::Key(key) => self.keys.remove(&key),
            Owner::Overflow => self.overflow.remove(&**entry.quota()),
            Owner::Vacant => None,
        };
        entry.clear();
        self.free.push(place as u32);
    }
}
