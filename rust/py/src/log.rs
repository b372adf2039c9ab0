//! `Log`, `Reader` and `Notifier`.
//!
//! No lock of the log is held while Python runs: waiters are moved out first and dropped or called
//! afterwards, so a finaliser that comes back here finds every lock free.

use std::os::fd::RawFd;
use std::sync::Arc;

use millstream_core::log::{
    Doorbell, Entry, INTER_TOKEN_BOUNDS_NS, Log as CoreLog, LogError, LogOptions,
};
use millstream_core::record::Kind;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

mod reader;

use reader::Reader;

/// What a parked reader left behind, and how its loop hears of it.
#[derive(Debug)]
pub(crate) struct Waiter {
    object: Py<PyAny>,
    notifier: SharedDoorbell,
}

pub(crate) type SharedDoorbell = Arc<Doorbell<Py<PyAny>>>;
pub(crate) type SharedLog = Arc<CoreLog<Waiter>>;

impl Waiter {
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

/// The bounded record store of one stream.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct Log {
    core: SharedLog,
}

impl Log {
    pub(crate) fn core(&self) -> SharedLog {
        Arc::clone(&self.core)
    }
}

#[pymethods]
impl Log {
    #[new]
    #[pyo3(signature = (*, max_bytes = 1048576, max_records = 65536, integrity = None))]
    fn new(max_bytes: usize, max_records: usize, integrity: Option<&[u8]>) -> PyResult<Self> {
        let options = LogOptions {
            max_bytes,
            max_records,
            integrity: integrity.map(Into::into),
        };
        Ok(Self {
            core: Arc::new(CoreLog::new(&options).map_err(log_error)?),
        })
    }

    #[pyo3(signature = (kind, text, *, choice = 0, token_count = 0, branch = 0, time_ns))]
    fn append(
        &self,
        kind: u8,
        text: &str,
        choice: u16,
        token_count: u32,
        branch: u8,
        time_ns: u64,
    ) -> PyResult<u64> {
        let kind = Kind::from_wire(kind)
            .ok_or_else(|| PyValueError::new_err(format!("{kind} is no kind of record")))?;
        let entry = Entry {
            time_ns,
            kind,
            branch,
            choice,
            token_count,
            text,
        };
        let mut woken = Vec::new();
        let seq = self.core.append(&entry, &mut woken).map_err(log_error)?;
        ring_all(woken)?;
        Ok(seq)
    }

    #[pyo3(signature = (outcome, *, time_ns))]
    fn close(&self, outcome: &str, time_ns: u64) -> PyResult<bool> {
        let mut woken = Vec::new();
        let closed = self.core.close(outcome, time_ns, &mut woken);
        ring_all(woken)?;
        Ok(closed)
    }

    #[pyo3(signature = (choice = 0))]
    fn text(&self, choice: u16) -> PyResult<String> {
        self.core.text(choice).map_err(log_error)
    }

    #[pyo3(signature = (choice = 0))]
    fn finish_reason(&self, choice: u16) -> Option<String> {
        self.core.finish_reason(choice)
    }

    fn inter_token_counts(&self) -> Vec<u32> {
        self.core.inter_token().counts.to_vec()
    }

    fn crc_at(&self, seq: u64) -> Option<u32> {
        self.core.crc_at(seq)
    }

    fn checks<'py>(&self, py: Python<'py>) -> Option<(u64, u64, u32, Bound<'py, PyBytes>)> {
        let checks = self.core.checks()?;
        let root = PyBytes::new(py, &checks.root);
        Some((checks.records, checks.bytes, checks.crc, root))
    }

    #[pyo3(signature = (after = 0))]
    fn leaves<'py>(&self, py: Python<'py>, after: u64) -> Vec<(u64, u64, Bound<'py, PyBytes>)> {
        let leaves = self.core.leaves_after(after);
        leaves
            .iter()
            .map(|leaf| (leaf.index, leaf.last_seq, PyBytes::new(py, &leaf.digest)))
            .collect()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.core.closed()
    }

    #[getter]
    fn tail(&self) -> u64 {
        self.core.tail()
    }

    #[getter]
    fn oldest(&self) -> u64 {
        self.core.oldest()
    }

    #[getter]
    fn bytes(&self) -> usize {
        self.core.bytes()
    }

    #[getter]
    fn memory_bytes(&self) -> usize {
        self.core.memory_bytes()
    }

    #[getter]
    fn waiting(&self) -> usize {
        self.core.waiting()
    }

    #[getter]
    fn token_count(&self) -> u64 {
        self.core.token_count()
    }

    #[getter]
    fn first_token_ns(&self) -> Option<u64> {
        self.core.first_token_ns()
    }

    #[getter]
    fn last_token_ns(&self) -> Option<u64> {
        self.core.last_token_ns()
    }

    #[getter]
    fn inter_token_sum_ns(&self) -> u64 {
        self.core.inter_token().sum_ns
    }

    #[getter]
    fn usage(&self) -> Option<String> {
        self.core.usage()
    }

    #[getter]
    fn error(&self) -> Option<String> {
        self.core.error()
    }

    #[getter]
    fn outcome(&self) -> Option<String> {
        self.core.outcome()
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

fn log_error(error: LogError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Log>()?;
    module.add_class::<Reader>()?;
    module.add_class::<Notifier>()?;
    let bounds = PyTuple::new(module.py(), INTER_TOKEN_BOUNDS_NS)?;
    module.add("INTER_TOKEN_BOUNDS_NS", bounds)
}
