use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::LimiterError;
use super::quota::Quota;

/// The most scopes that one decision spans.
pub const MAX_SCOPES: usize = 6;

/// One key with its quota, resolved to its shard.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) key: Arc<str>,
    pub(crate) quota: Arc<Quota>,
    pub(crate) shard: u16,
    /// Position in the order in which the caller named the scopes.
    pub(crate) position: usize,
    /// Where the key was found last: only a guess, checked against the key on use.
    place: AtomicU32,
}

impl Scope {
    pub(crate) const fn new(key: Arc<str>, quota: Arc<Quota>, shard: u16, position: usize) -> Self {
        Self {
            key,
            quota,
            shard,
            position,
            place: AtomicU32::new(u32::MAX),
        }
    }

    pub(crate) fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }

    pub(crate) fn found_at(&self, place: u32) {
        self.place.store(place, Ordering::Relaxed);
    }
}

/// The scopes of one kind of decision, resolved once and used for many.
#[derive(Debug)]
pub struct ScopeSet {
    pub(crate) limiter: u64,
    /// In ascending order of shard: the order in which their locks are taken.
    pub(crate) scopes: Box<[Scope]>,
}

impl ScopeSet {
    pub(crate) fn new(limiter: u64, mut scopes: Vec<Scope>) -> Result<Self, LimiterError> {
        if scopes.is_empty() || scopes.len() > MAX_SCOPES {
            return Err(LimiterError::ScopesOutOfRange(scopes.len()));
        }
        let named_twice =
            |scope: &Scope| scopes.iter().filter(|it| it.key == scope.key).count() > 1;
        if scopes.iter().any(named_twice) {
            return Err(LimiterError::DuplicateKey);
        }
        scopes.sort_by_key(|scope| scope.shard);
        Ok(Self {
            limiter,
            scopes: scopes.into_boxed_slice(),
        })
    }

    /// The key of the scope at a position, as a refusal or a meter names it.
    #[must_use]
    pub fn key(&self, position: usize) -> Option<&Arc<str>> {
        self.scopes
            .iter()
            .find(|scope| scope.position == position)
            .map(|scope| &scope.key)
    }
}
