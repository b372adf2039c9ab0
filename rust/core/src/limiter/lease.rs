use super::decision::Cost;
use super::entry::Charge;
use super::scopes::MAX_SCOPES;

/// The end of the list of holds.
const NONE: u32 = u32::MAX;

/// What admission grants: settled, cancelled, undone or left to expire, once.
///
/// The value only names what the limiter keeps, so a lost lease leaks nothing.
#[derive(Clone, Debug)]
pub struct Lease {
    pub(crate) limiter: u64,
    cost: Cost,
    holds: [HoldRef; MAX_SCOPES],
    len: usize,
}

impl Lease {
    pub(crate) const fn new(limiter: u64, cost: Cost) -> Self {
        let nothing = HoldRef {
            shard: 0,
            place: NONE,
            serial: 0,
        };
        Self {
            limiter,
            cost,
            holds: [nothing; MAX_SCOPES],
            len: 0,
        }
    }

    /// What was reserved.
    #[must_use]
    pub const fn cost(&self) -> &Cost {
        &self.cost
    }

    pub(crate) fn push(&mut self, hold: HoldRef) {
        self.holds[self.len] = hold;
        self.len += 1;
    }

    /// One hold per key, in ascending order of shard.
    pub(crate) fn holds(&self) -> &[HoldRef] {
        &self.holds[..self.len]
    }
}

/// The name of a hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldRef {
    pub(crate) shard: u16,
    place: u32,
    serial: u64,
}

/// A lease's part in one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) entry: u32,
    pub(crate) charge: Charge,
}

#[derive(Debug)]
struct Slot {
    /// Of the hold that lives here; 0 while free.
    serial: u64,
    hold: Hold,
    expires_at: u64,
    older: u32,
    newer: u32,
}

/// The open holds of one shard, oldest first.
///
/// Every hold lives equally long and the shard's time is monotone, so a list in order of insertion
/// is a list in order of expiry: insertion, removal and renewal are all O(1).
#[derive(Debug)]
pub(crate) struct Holds {
    slots: Vec<Slot>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    /// Never reused, so a stale name finds nothing.
    next_serial: u64,
}

impl Holds {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            next_serial: 1,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, shard: u16, hold: Hold, expires_at: u64) -> HoldRef {
        let serial = self.next_serial;
        self.next_serial += 1;
        let slot = Slot {
            serial,
            hold,
            expires_at,
            older: NONE,
            newer: NONE,
        };
        let place = self.free.pop().unwrap_or(self.slots.len() as u32);
        if let Some(vacant) = self.slots.get_mut(place as usize) {
            *vacant = slot;
        } else {
            self.slots.push(slot);
        }
        self.append(place);
        HoldRef {
            shard,
            place,
            serial,
        }
    }

    pub(crate) fn is_open(&self, name: HoldRef) -> bool {
        self.slots
            .get(name.place as usize)
            .is_some_and(|slot| slot.serial == name.serial)
    }

    pub(crate) fn remove(&mut self, name: HoldRef) -> Option<Hold> {
        self.is_open(name).then(|| self.vacate(name.place))
    }

    /// Moves the expiry of an open hold to `expires_at`, later than every other's.
    pub(crate) fn renew(&mut self, name: HoldRef, expires_at: u64) {
        if self.is_open(name) {
            self.unlink(name.place);
            self.slots[name.place as usize].expires_at = expires_at;
            self.append(name.place);
        }
    }

    /// Takes out one hold that has expired by `now`.
    pub(crate) fn pop_expired(&mut self, now: u64) -> Option<Hold> {
        let oldest = self.slots.get(self.oldest as usize)?;
        (oldest.expires_at <= now).then(|| self.vacate(self.oldest))
    }

    fn vacate(&mut self, place: u32) -> Hold {
        self.unlink(place);
        self.free.push(place);
        let slot = &mut self.slots[place as usize];
        slot.serial = 0;
        slot.hold
    }

    fn append(&mut self, place: u32) {
        let older = std::mem::replace(&mut self.newest, place);
        let slot = &mut self.slots[place as usize];
        (slot.older, slot.newer) = (older, NONE);
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = place,
            None => self.oldest = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Slot { older, newer, .. } = self.slots[place as usize];
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }
}
