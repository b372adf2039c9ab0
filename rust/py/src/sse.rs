//! `Encoder` and `SseParser`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream_core::record::{Kind, Record};
use millstream_core::sse::{
    Dialect, Encoder as CoreEncoder, EncoderOptions, Event, EventTooLarge, Framing, Marks, Parser,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyString};

pyo3::create_exception!(
    millstream._core,
    SseEventTooLarge,
    PyValueError,
    "An event is larger than its parser allows; the parser takes nothing more."
);

/// Turns records into frames; one per reader.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct Encoder {
    core: Mutex<CoreEncoder>,
}

/// A usual chat chunk with its id line; longer ones cost a reallocation.
const FRAME_BYTES: usize = 320;

/// `(seq, time_ns, kind, choice, token_count, text)`.
type RecordTuple = (u64, u64, u8, u16, u32, PyBackedStr);

impl Encoder {
    /// A copy of the encoder as it stands, for a reader to own.
    pub(crate) fn core(&self) -> CoreEncoder {
        self.lock().clone()
    }

    /// The lock is gone before Python runs again: making an object can start a collection, and
    /// with it any code, which might wait for this encoder in another thread.
    fn encode_batch(&self, records: &[Record<'_>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(FRAME_BYTES * records.len());
        let mut core = self.lock();
        for record in records {
            core.encode(record, &Marks::NONE, &mut out);
        }
        out
    }

    fn lock(&self) -> MutexGuard<'_, CoreEncoder> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (*, dialect, framing="sse", chunk_id, model, created,
                        include_usage=false, metadata=false, epoch=None))]
    #[expect(clippy::too_many_arguments, reason = "one keyword per option")]
    fn new(
        dialect: &str,
        framing: &str,
        chunk_id: String,
        model: String,
        created: u64,
        include_usage: bool,
        metadata: bool,
        epoch: Option<u64>,
    ) -> PyResult<Self> {
        let options = EncoderOptions {
            dialect: parse_dialect(dialect)?,
            framing: parse_framing(framing)?,
            chunk_id,
            model,
            created,
            include_usage,
            metadata,
            epoch,
        };
        Ok(Self {
            core: Mutex::new(CoreEncoder::new(options)),
        })
    }

    /// A copy for a reader that joins later: chat deltas carry no role.
    fn resumed(&self) -> Self {
        Self {
            core: Mutex::new(self.core().resumed()),
        }
    }

    /// The frames of a batch of records.
    #[expect(clippy::needless_pass_by_value, reason = "extracted from a list")]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        records: Vec<RecordTuple>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let records = records
            .iter()
            .map(borrow_record)
            .collect::<PyResult<Vec<_>>>()?;
        Ok(PyBytes::new(py, &self.encode_batch(&records)))
    }
}

fn borrow_record(record: &RecordTuple) -> PyResult<Record<'_>> {
    let (seq, time_ns, kind, choice, token_count, text) = record;
    let kind = Kind::from_wire(*kind)
        .ok_or_else(|| PyValueError::new_err(format!("{kind} is no kind of record")))?;
    Ok(Record {
        seq: *seq,
        time_ns: *time_ns,
        kind,
        branch: 0,
        choice: *choice,
        token_count: *token_count,
        text,
    })
}

fn parse_dialect(name: &str) -> PyResult<Dialect> {
    match name {
        "chat" => Ok(Dialect::Chat),
        "completion" => Ok(Dialect::Completion),
        "native" => Ok(Dialect::Native),
        _ => Err(PyValueError::new_err(format!(
            "dialect must be 'chat', 'completion' or 'native', not {name:?}"
        ))),
    }
}

fn parse_framing(name: &str) -> PyResult<Framing> {
    match name {
        "sse" => Ok(Framing::Sse),
        "ndjson" => Ok(Framing::Ndjson),
        _ => Err(PyValueError::new_err(format!(
            "framing must be 'sse' or 'ndjson', not {name:?}"
        ))),
    }
}

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

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Encoder>()?;
    module.add_class::<SseEvent>()?;
    module.add_class::<SseParser>()?;
    module.add(
        "SseEventTooLarge",
        module.py().get_type::<SseEventTooLarge>(),
    )
}
