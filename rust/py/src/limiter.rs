//! `Quota`, `Limiter` and what they give out.
//!
//! A decision keeps the GIL: it never waits for anything but the shards' locks, which are held for
//! well under a microsecond and never across a call into Python.

use std::sync::Arc;

use millstream_core::limiter::{
    self as core, Cost, Denied, LimiterError, RequestRate, TokenWindow,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBool;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Quota>()?;
    module.add_class::<Scopes>()?;
    module.add_class::<Lease>()?;
    module.add_class::<Refusal>()?;
    module.add_class::<Meter>()?;
    module.add_class::<Snapshot>()?;
    module.add_class::<Limiter>()
}

fn invalid(error: LimiterError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What one key may use.
#[pyclass(frozen, eq, hash, module = "millstream._core")]
#[derive(Debug, PartialEq, Eq, Hash)]
struct Quota(Arc<core::Quota>);

#[pymethods]
impl Quota {
    #[new]
    #[pyo3(signature = (*, rate=None, period_ns=1_000_000_000, burst=None, tokens=None, window_ns=None, slots=16, concurrency=None, kibibytes=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        rate: Option<u64>,
        period_ns: u64,
        burst: Option<u64>,
        tokens: Option<u64>,
        window_ns: Option<u64>,
        slots: usize,
        concurrency: Option<u64>,
        kibibytes: Option<u64>,
    ) -> PyResult<Self> {
        let requests = together("rate", rate, "burst", burst)?
            .map(|(rate, burst)| RequestRate::new(rate, period_ns, burst));
        let tokens = together("tokens", tokens, "window_ns", window_ns)?
            .map(|(limit, window_ns)| TokenWindow::new(limit, window_ns, slots));
        let requests = requests.transpose().map_err(invalid)?;
        let tokens = tokens.transpose().map_err(invalid)?;
        let quota = core::Quota::new(requests, tokens, concurrency, kibibytes).map_err(invalid)?;
        Ok(Self(Arc::new(quota)))
    }
}

fn together(
    one_name: &str,
    one: Option<u64>,
    other_name: &str,
    other: Option<u64>,
) -> PyResult<Option<(u64, u64)>> {
    match (one, other) {
        (Some(one), Some(other)) => Ok(Some((one, other))),
        (None, None) => Ok(None),
        _ => Err(PyValueError::new_err(format!(
            "{one_name} and {other_name} go together"
        ))),
    }
}

/// Keys with their quotas, resolved for one limiter.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
struct Scopes(core::ScopeSet);

/// The name of a reservation; the limiter keeps the rest.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
struct Lease(core::Lease);

#[pymethods]
impl Lease {
    #[getter]
    fn tokens(&self) -> u64 {
        self.0.cost().tokens()
    }

    #[getter]
    fn prompt(&self) -> u64 {
        self.0.cost().prompt()
    }

    #[getter]
    fn kibibytes(&self) -> u64 {
        self.0.cost().kibibytes()
    }
}

/// Why nothing was taken; false in a condition.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
struct Refusal {
    scopes: Py<Scopes>,
    refusal: core::Refusal,
}

#[pymethods]
impl Refusal {
    #[getter]
    fn scope(&self) -> &str {
        name(self.scopes.get(), self.refusal.scope)
    }

    #[getter]
    fn dimension(&self) -> &'static str {
        self.refusal.dimension.as_str()
    }

    #[getter]
    fn wait_ns(&self) -> u64 {
        self.refusal.wait_ns
    }

    #[getter]
    fn permanent(&self) -> bool {
        self.refusal.permanent
    }

    #[expect(clippy::unused_self, reason = "Python's protocol")]
    fn __bool__(&self) -> bool {
        false
    }

    fn __repr__(&self) -> String {
        format!(
            "Refusal(scope={:?}, dimension={:?}, wait_ns={}, permanent={})",
            self.scope(),
            self.dimension(),
            self.wait_ns(),
            if self.permanent() { "True" } else { "False" },
        )
    }
}

fn name(scopes: &Scopes, position: usize) -> &str {
    scopes.0.key(position).map_or("", |key| key)
}

/// The state of one dimension of one key.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
struct Meter {
    scopes: Py<Scopes>,
    meter: core::Meter,
}

#[pymethods]
impl Meter {
    #[getter]
    fn scope(&self) -> &str {
        name(self.scopes.get(), self.meter.scope)
    }

    #[getter]
    fn limit(&self) -> u64 {
        self.meter.limit
    }

    #[getter]
    fn remaining(&self) -> u64 {
        self.meter.remaining
    }

    #[getter]
    fn reset_ns(&self) -> u64 {
        self.meter.reset_ns
    }

    fn __repr__(&self) -> String {
        format!(
            "Meter(scope={:?}, limit={}, remaining={}, reset_ns={})",
            self.scope(),
            self.limit(),
            self.remaining(),
            self.reset_ns(),
        )
    }
}

/// The tightest scope of each dimension.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
struct Snapshot {
    scopes: Py<Scopes>,
    snapshot: core::Snapshot,
}

impl Snapshot {
    fn meter(&self, py: Python<'_>, meter: Option<core::Meter>) -> Option<Meter> {
        meter.map(|meter| Meter {
            scopes: self.scopes.clone_ref(py),
            meter,
        })
    }
}

#[pymethods]
impl Snapshot {
    #[getter]
    fn requests(&self, py: Python<'_>) -> Option<Meter> {
        self.meter(py, self.snapshot.requests)
    }

    #[getter]
    fn tokens(&self, py: Python<'_>) -> Option<Meter> {
        self.meter(py, self.snapshot.tokens)
    }

    #[getter]
    fn concurrency(&self, py: Python<'_>) -> Option<Meter> {
        self.meter(py, self.snapshot.concurrency)
    }

    #[getter]
    fn bytes(&self, py: Python<'_>) -> Option<Meter> {
        self.meter(py, self.snapshot.bytes)
    }
}

/// Several keys checked together, all or nothing.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
struct Limiter(core::Limiter);

#[pymethods]
impl Limiter {
    #[new]
    #[pyo3(signature = (*, max_keys=100_000, shards=8, lease_ttl_ns=900_000_000_000))]
    fn new(max_keys: usize, shards: usize, lease_ttl_ns: u64) -> PyResult<Self> {
        let options = core::LimiterOptions {
            max_keys,
            shards,
            lease_ttl_ns,
        };
        core::Limiter::new(options).map(Self).map_err(invalid)
    }

    fn scopes(&self, scopes: Vec<(String, PyRef<'_, Quota>)>) -> PyResult<Scopes> {
        let scopes = scopes
            .into_iter()
            .map(|(key, quota)| (key, Arc::clone(&quota.0)));
        self.0.scopes(scopes).map(Scopes).map_err(invalid)
    }

    #[pyo3(signature = (scopes, now_ns, tokens=0, requests=1, prompt=0, kibibytes=0))]
    fn reserve<'py>(
        &self,
        scopes: &Bound<'py, Scopes>,
        now_ns: u64,
        tokens: i64,
        requests: i64,
        prompt: i64,
        kibibytes: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cost = Cost::new(requests, tokens, prompt, kibibytes).map_err(invalid)?;
        match self.0.reserve(&scopes.get().0, cost, now_ns) {
            Ok(lease) => Ok(Bound::new(scopes.py(), Lease(lease))?.into_any()),
            Err(denied) => refuse(scopes, denied),
        }
    }

    #[pyo3(signature = (scopes, now_ns, tokens=0, requests=1))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        scopes: &Bound<'py, Scopes>,
        now_ns: u64,
        tokens: i64,
        requests: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cost = Cost::new(requests, tokens, 0, 0).map_err(invalid)?;
        match self.0.take(&scopes.get().0, cost, now_ns) {
            Ok(()) => Ok(PyBool::new(py, true).to_owned().into_any()),
            Err(denied) => refuse(scopes, denied),
        }
    }

    fn settle(&self, lease: &Bound<'_, Lease>, actual: i64, now_ns: u64) -> PyResult<bool> {
        self.0
            .settle(&lease.get().0, actual, now_ns)
            .map_err(invalid)
    }

    fn cancel(&self, lease: &Bound<'_, Lease>, emitted: i64, now_ns: u64) -> PyResult<bool> {
        self.0
            .cancel(&lease.get().0, emitted, now_ns)
            .map_err(invalid)
    }

    fn undo(&self, lease: &Bound<'_, Lease>, now_ns: u64) -> PyResult<bool> {
        self.0.undo(&lease.get().0, now_ns).map_err(invalid)
    }

    fn renew(&self, lease: &Bound<'_, Lease>, now_ns: u64) -> PyResult<bool> {
        self.0.renew(&lease.get().0, now_ns).map_err(invalid)
    }

    fn peek(&self, scopes: &Bound<'_, Scopes>, now_ns: u64) -> PyResult<Snapshot> {
        let snapshot = self.0.peek(&scopes.get().0, now_ns).map_err(invalid)?;
        Ok(Snapshot {
            scopes: scopes.clone().unbind(),
            snapshot,
        })
    }

    #[getter]
    fn keys(&self) -> usize {
        self.0.keys()
    }

    #[getter]
    fn holds(&self) -> usize {
        self.0.holds()
    }
}

fn refuse<'py>(scopes: &Bound<'py, Scopes>, denied: Denied) -> PyResult<Bound<'py, PyAny>> {
    match denied {
        Denied::Refused(refusal) => {
            let refusal = Refusal {
                scopes: scopes.clone().unbind(),
                refusal,
            };
            Ok(Bound::new(scopes.py(), refusal)?.into_any())
        }
        Denied::Invalid(error) => Err(invalid(error)),
    }
}
