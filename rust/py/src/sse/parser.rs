//! `SseParser` and what it gives.

use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream_core::sse::{Event, EventTooLarge, Parser};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

pyo3::create_exception!(
    millstream._core,
    SseEventTooLarge,
    PyValueError,
    "An event is larger than its parser allows; the parser takes nothing more."
);

/// One dispatched event.
#[pyclass(frozen, eq, hash, module = "millstream._core")]
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SseEvent {
    core: Event,
}

#[pymethods]
impl SseEvent {
    #[new]
    #[pyo3(signature = (event, data, id="", retry=None))]
    fn new(event: String, data: String, id: &str, retry: Option<u64>) -> Self {
        Self {
            core: Event {
                event: event.into(),
                data,
                id: id.into(),
                retry_ms: retry,
            },
        }
    }

    /// The event type; "message" unless the stream named another.
    #[getter]
    fn event(&self) -> &str {
        &self.core.event
    }

    /// The data lines, joined by line feeds.
    #[getter]
    fn data(&self) -> &str {
        &self.core.data
    }

    /// The last event id of the stream so far; empty if there is none.
    #[getter]
    fn id(&self) -> &str {
        &self.core.id
    }

    /// The reconnection time that came with this event, in milliseconds.
    #[getter]
    fn retry(&self) -> Option<u64> {
        self.core.retry_ms
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let quoted = |text: &str| PyString::new(py, text).repr().map(|repr| repr.to_string());
        let retry = self
            .core
            .retry_ms
            .map_or_else(|| "None".to_owned(), |retry| retry.to_string());
        Ok(format!(
            "SseEvent(event={}, data={}, id={}, retry={retry})",
            quoted(&self.core.event)?,
            quoted(&self.core.data)?,
            quoted(&self.core.id)?,
        ))
    }
}

/// An incremental parser of one event stream.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct SseParser {
    core: Mutex<Parser>,
}

impl SseParser {
    fn lock(&self) -> MutexGuard<'_, Parser> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Events that were complete before the limit was passed come first, the error with the next
    /// call: what a client may see must not depend on how the bytes were split.
    fn feed_bytes(&self, bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLarge> {
        let mut events = Vec::new();
        let fed = self.lock().feed(bytes, &mut events);
        if events.is_empty() {
            fed?;
        }
        Ok(events.into_iter().map(|core| SseEvent { core }).collect())
    }
}

#[pymethods]
impl SseParser {
    #[new]
    #[pyo3(signature = (*, max_event_bytes=1_048_576))]
    fn new(max_event_bytes: usize) -> PyResult<Self> {
        if max_event_bytes == 0 {
            return Err(PyValueError::new_err("max_event_bytes must be at least 1"));
        }
        Ok(Self {
            core: Mutex::new(Parser::new(max_event_bytes)),
        })
    }

    /// Takes the next bytes and gives the events that they complete.
    fn feed(&self, data: &Bound<'_, PyAny>) -> PyResult<Vec<SseEvent>> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return self.feed_bytes(bytes.as_bytes()).map_err(too_large);
        }
        let copy = PyBuffer::<u8>::get(data)?.to_vec(data.py())?;
        self.feed_bytes(&copy).map_err(too_large)
    }

    /// Ends the stream and says whether an unfinished event was discarded.
    fn finish(&self) -> PyResult<bool> {
        self.lock().finish().map_err(too_large)
    }

    /// The id to send as `Last-Event-ID` on reconnection; empty if there is none.
    #[getter]
    fn last_event_id(&self) -> String {
        self.lock().last_event_id().to_owned()
    }

    /// The latest reconnection time of the stream, in milliseconds.
    #[getter]
    fn retry(&self) -> Option<u64> {
        self.lock().retry_ms()
    }
}

fn too_large(error: EventTooLarge) -> PyErr {
    SseEventTooLarge::new_err(error.to_string())
}
