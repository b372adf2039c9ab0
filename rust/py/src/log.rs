//! `Log`, `Reader` and `Notifier`.
//!
//! No lock of the log is held while Python runs: waiters are moved out first and dropped or called
//! afterwards, so a finaliser that comes back here finds every lock free.

use std::fmt::Display;
use std::sync::Arc;

use millstream_core::log::{
    Entry, INTER_TOKEN_BOUNDS_NS, Log as CoreLog, LogOptions, Terminal, first_seq_of,
};
use millstream_core::record::Kind;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

mod notifier;
mod reader;

pub(crate) use notifier::{Notifier, SharedDoorbell, Waiter, ring_all};
use reader::Reader;

pub(crate) type SharedLog = Arc<CoreLog<Waiter>>;

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
    #[pyo3(signature = (*, max_bytes = 1048576, max_records = 65536, integrity = None,
                        branches = 1, first_seq = 1))]
    fn new(
        max_bytes: usize,
        max_records: usize,
        integrity: Option<&[u8]>,
        branches: usize,
        first_seq: u64,
    ) -> PyResult<Self> {
        let options = LogOptions {
            max_bytes,
            max_records,
            integrity: integrity.map(Into::into),
            branches,
            first_seq,
        };
        Ok(Self {
            core: Arc::new(CoreLog::new(&options).map_err(log_error)?),
        })
    }

    #[staticmethod]
    #[pyo3(signature = (batch, *, max_bytes = 1048576, max_records = 65536, integrity = None,
                        branches = 1))]
    fn mirror(
        batch: &[u8],
        max_bytes: usize,
        max_records: usize,
        integrity: Option<&[u8]>,
        branches: usize,
    ) -> PyResult<Self> {
        let first_seq = Self::first_seq_of(batch)?;
        let log = Self::new(max_bytes, max_records, integrity, branches, first_seq)?;
        log.unpack(batch)?;
        Ok(log)
    }

    #[staticmethod]
    fn first_seq_of(batch: &[u8]) -> PyResult<u64> {
        first_seq_of(batch).map_err(log_error)
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

    #[pyo3(signature = (outcome, settlement = None, *, time_ns))]
    fn close(&self, outcome: &str, settlement: Option<&str>, time_ns: u64) -> PyResult<bool> {
        let terminal = Terminal {
            outcome,
            settlement,
        };
        let mut woken = Vec::new();
        let closed = self.core.close(terminal, time_ns, &mut woken);
        let closed = closed.map_err(log_error)?;
        ring_all(woken)?;
        Ok(closed)
    }

    #[pyo3(signature = (after, *, max_records = 64, max_bytes = 65536))]
    fn pack<'py>(
        &self,
        py: Python<'py>,
        after: u64,
        max_records: usize,
        max_bytes: usize,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, u64, u64)>> {
        let packed = self.core.pack(after, max_records, max_bytes);
        let packed = packed.map_err(log_error)?;
        Ok(packed.map(|it| (PyBytes::new(py, &it.bytes), it.first, it.last)))
    }

    fn unpack(&self, batch: &[u8]) -> PyResult<u64> {
        let mut woken = Vec::new();
        let tail = self.core.unpack(batch, &mut woken).map_err(log_error)?;
        ring_all(woken)?;
        Ok(tail)
    }

    #[pyo3(signature = (choice = 0, branch = 0))]
    fn text(&self, choice: u16, branch: u8) -> PyResult<String> {
        self.core.text(branch, choice).map_err(log_error)
    }

    fn snapshot(&self) -> Vec<(u8, u16, u64, String)> {
        let texts = self.core.snapshot().into_iter();
        texts
            .map(|it| (it.branch, it.choice, it.omitted_bytes, it.text))
            .collect()
    }

    #[pyo3(signature = (choice = 0, branch = 0))]
    fn finish_reason(&self, choice: u16, branch: u8) -> Option<String> {
        self.core.finish_reason(branch, choice)
    }

    #[pyo3(signature = (branch = 0))]
    fn inter_token_counts(&self, branch: u8) -> Vec<u32> {
        self.core.inter_token_of(branch).counts.to_vec()
    }

    #[pyo3(signature = (branch = 0))]
    fn inter_token_sum_ns_of(&self, branch: u8) -> u64 {
        self.core.inter_token_of(branch).sum_ns
    }

    #[pyo3(signature = (branch = 0))]
    fn token_count_of(&self, branch: u8) -> u64 {
        self.core.token_count_of(branch)
    }

    #[pyo3(signature = (branch = 0))]
    fn first_token_ns_of(&self, branch: u8) -> Option<u64> {
        self.core.first_token_ns_of(branch)
    }

    #[pyo3(signature = (branch = 0))]
    fn last_token_ns_of(&self, branch: u8) -> Option<u64> {
        self.core.last_token_ns_of(branch)
    }

    #[pyo3(signature = (branch = 0))]
    fn usage_of(&self, branch: u8) -> Option<String> {
        self.core.usage_of(branch)
    }

    #[pyo3(signature = (branch = 0))]
    fn error_of(&self, branch: u8) -> Option<String> {
        self.core.error_of(branch)
    }

    #[pyo3(signature = (branch = 0))]
    fn outcome_of(&self, branch: u8) -> Option<String> {
        self.core.outcome_of(branch)
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

    fn last_leaf_before(&self, seq: u64) -> u64 {
        self.core.last_leaf_before(seq)
    }

    #[getter]
    fn last_token_seq(&self) -> Option<u64> {
        self.core.last_token_seq()
    }

    #[getter]
    fn branches(&self) -> usize {
        self.core.branches()
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
        self.core.inter_token_of(0).sum_ns
    }

    #[getter]
    fn usage(&self) -> Option<String> {
        self.core.usage_of(0)
    }

    #[getter]
    fn error(&self) -> Option<String> {
        self.core.error()
    }

    #[getter]
    fn outcome(&self) -> Option<String> {
        self.core.outcome()
    }

    #[getter]
    fn settlement(&self) -> Option<String> {
        self.core.settlement()
    }
}

pub(crate) fn log_error(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Log>()?;
    module.add_class::<Reader>()?;
    module.add_class::<Notifier>()?;
    let bounds = PyTuple::new(module.py(), INTER_TOKEN_BOUNDS_NS)?;
    module.add("INTER_TOKEN_BOUNDS_NS", bounds)
}
