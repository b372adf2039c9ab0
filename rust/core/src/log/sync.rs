//! The one lock of the log, replaced by loom's when its interleavings are explored.

use std::sync::PoisonError;

#[cfg(loom)]
use loom::sync::{Mutex as Inner, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex as Inner, MutexGuard};

/// A mutex that keeps working after a panic elsewhere: no critical section here leaves its value
/// half changed in a way that a later reader could not stand.
#[derive(Debug)]
pub(super) struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
