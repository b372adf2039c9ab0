//! `Encoder` and `SseParser`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream_core::record::{Kind, Record};
use millstream_core::sse::{Dialect, Encoder as CoreEncoder, EncoderOptions, Framing};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyBytes;

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
            core.encode(record, &mut out);
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

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Encoder>()
}
