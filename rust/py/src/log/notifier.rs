use std::os::fd::RawFd;
use std::sync::Arc;

use millstream_core::log::Doorbell;
use pyo3::prelude::*;

/// What a parked reader left behind, and how its loop hears of it.
#[derive(Debug)]
pub(crate) struct Waiter {
    object: Py<PyAny>,
    notifier: SharedDoorbell,
}

pub(crate) type SharedDoorbell = Arc<Doorbell<Py<PyAny>>>;

impl Waiter {
    pub(crate) const fn new(object: Py<PyAny>, notifier: SharedDoorbell) -> Self {
        Self { object, notifier }
    }

    /// Hands the waiter to its loop, whichever thread this is.
    pub(crate) fn ring(self) -> PyResult<()> {
        Ok(self.notifier.ring(self.object)?)
    }

    /// The waiter itself if it belongs to the loop of this notifier.
    pub(crate) fn for_loop(self, notifier: Option<&SharedDoorbell>) -> Result<Py<PyAny>, Self> {
        match notifier {
            Some(here) if Arc::ptr_eq(here, &self.notifier) => Ok(self.object),
            _ => Err(self),
        }
    }
}

/// Hands waiters to their loops; every one is tried, the first failure is told.
pub(crate) fn ring_all(woken: Vec<Waiter>) -> PyResult<()> {
    let mut told = Ok(());
    for waiter in woken {
        told = told.and(waiter.ring());
    }
    told
}

/// Wakes the waiters of one event loop from any thread.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct Notifier {
    doorbell: SharedDoorbell,
}

impl Notifier {
    pub(crate) fn core(&self) -> SharedDoorbell {
        Arc::clone(&self.doorbell)
    }
}

#[pymethods]
impl Notifier {
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self {
            doorbell: Arc::new(Doorbell::new()?),
        })
    }

    fn fileno(&self) -> RawFd {
        self.doorbell.wait_fd()
    }

    fn ready(&self) -> PyResult<Vec<Py<PyAny>>> {
        Ok(self.doorbell.answer()?)
    }
}
