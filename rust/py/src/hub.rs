//! `Hub`: from one ring to the logs of the requests that are on it.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::sync::{Arc, Mutex};

use millstream_core::log::Entry;
use millstream_core::record::Kind;
use millstream_core::ring::{Consumer, RingRecord};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::log::{Log, Notifier, SharedDoorbell, SharedLog, Waiter, log_error, ring_all};
use crate::ring::{RingConsumer, lock, ring_error};

/// The worker's end of one ring.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct Hub {
    ring: Arc<Mutex<Consumer>>,
    notifier: Option<SharedDoorbell>,
    routes: Mutex<Routes>,
}

#[derive(Debug, Default)]
struct Routes {
    logs: HashMap<u64, Route>,
    dropped: u64,
}

/// Where the records of one request go.
#[derive(Debug)]
struct Route {
    log: SharedLog,
    branch: u8,
}

/// What one drain brought.
#[derive(Debug, Default)]
struct Arrivals {
    woken: Vec<Waiter>,
    ended: Vec<u64>,
}

#[pymethods]
impl Hub {
    #[new]
    #[pyo3(signature = (ring, notifier = None))]
    fn new(ring: &RingConsumer, notifier: Option<&Notifier>) -> Self {
        Self {
            ring: ring.core(),
            notifier: notifier.map(Notifier::core),
            routes: Mutex::default(),
        }
    }

    #[pyo3(signature = (request, log, branch = 0))]
    fn attach(&self, request: u64, log: &Log, branch: u8) -> PyResult<()> {
        log.core().check_branch(branch).map_err(log_error)?;
        match lock(&self.routes).logs.entry(request) {
            Place::Occupied(_) => Err(PyValueError::new_err(format!(
                "request {request} is attached already"
            ))),
            Place::Vacant(place) => {
                place.insert(Route {
                    log: log.core(),
                    branch,
                });
                Ok(())
            }
        }
    }

    fn detach(&self, request: u64) {
        // Bound to a name: the last hold on a log drops its waiters, which may run Python.
        let route = lock(&self.routes).logs.remove(&request);
        drop(route);
    }

    fn drain(&self) -> PyResult<(Vec<Py<PyAny>>, Vec<u64>)> {
        let mut arrivals = Arrivals::default();
        let drained = {
            let mut routes = lock(&self.routes);
            lock(&self.ring).drain(|record| routes.deliver(&record, &mut arrivals))
        };
        if let Err(error) = drained {
            // Nobody sees a result now, yet what came before the damage is in the logs.
            ring_all(arrivals.woken)?;
            return Err(ring_error(error));
        }
        let mut here = Vec::with_capacity(arrivals.woken.len());
        for waiter in arrivals.woken {
            match waiter.for_loop(self.notifier.as_ref()) {
                Ok(object) => here.push(object),
                Err(waiter) => waiter.ring()?,
            }
        }
        Ok((here, arrivals.ended))
    }

    #[getter]
    fn dropped(&self) -> u64 {
        lock(&self.routes).dropped
    }

    #[getter]
    fn attached(&self) -> usize {
        lock(&self.routes).logs.len()
    }
}

impl Routes {
    /// Appends to the log of the record's request.
    ///
    /// A record that no log takes is counted, and so is one that no engine may write: how a stream
    /// ends is its owner's to say.
    fn deliver(&mut self, record: &RingRecord<'_>, arrivals: &mut Arrivals) {
        let route = self.logs.get(&record.stream);
        let Some(route) = route.filter(|_| record.kind.is_engines()) else {
            self.dropped += 1;
            return;
        };
        let entry = Entry {
            time_ns: record.time_ns,
            kind: record.kind,
            branch: route.branch,
            choice: record.choice,
            token_count: record.token_count,
            text: record.text,
        };
        if route.log.append(&entry, &mut arrivals.woken).is_err() {
            self.dropped += 1;
        }
        if matches!(record.kind, Kind::Usage | Kind::Error) {
            arrivals.ended.push(record.stream);
        }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Hub>()
}
