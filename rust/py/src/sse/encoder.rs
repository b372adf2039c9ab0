//! `Encoder`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream_core::record::{Kind, Record};
use millstream_core::sse::{
    BranchName, Dialect, Encoder as CoreEncoder, EncoderOptions, Framing, Ledger, Marks,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyBytes, PyTuple};

/// A usual chat chunk with its id line; longer ones cost a reallocation.
const FRAME_BYTES: usize = 320;

/// Turns records into frames; one per reader.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct Encoder {
    branches: usize,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    core: CoreEncoder,
    ledger: Option<Ledger>,
}

impl State {
    fn encode(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        match &mut self.ledger {
            Some(ledger) => ledger.encode(&mut self.core, record, out),
            None => self.core.encode(record, &Marks::NONE, out),
        }
    }
}

impl Encoder {
    /// A copy of the encoder as it stands, for a reader to own.
    pub(crate) fn core(&self) -> CoreEncoder {
        self.lock().core.clone()
    }

    /// The lock is gone before Python runs again: making an object can start a collection, and
    /// with it any code, which might wait for this encoder in another thread.
    fn encode_batch(&self, records: &[Record<'_>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(FRAME_BYTES * records.len());
        let mut state = self.lock();
        for record in records {
            state.encode(record, &mut out);
        }
        out
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn borrow<'a>(&self, record: &'a RecordTuple) -> PyResult<Record<'a>> {
        if usize::from(record.branch) >= self.branches {
            return Err(PyValueError::new_err(format!(
                "there is no branch {} of {}",
                record.branch, self.branches
            )));
        }
        record.borrow()
    }
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (*, dialect, framing="sse", chunk_id, model, created,
                        include_usage=false, metadata=false, epoch=None, integrity=false,
                        fields=false, retry_ms=None, stream_id="", branches=None, response=None,
                        starting_after=None))]
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
        integrity: bool,
        fields: bool,
        retry_ms: Option<u64>,
        stream_id: &str,
        branches: Option<Vec<(String, String)>>,
        response: Option<String>,
        starting_after: Option<u64>,
    ) -> PyResult<Self> {
        let branches = branches.unwrap_or_else(|| vec![(model, chunk_id)]);
        let options = EncoderOptions {
            dialect: parse_dialect(dialect)?,
            framing: parse_framing(framing)?,
            branches: branches.into_iter().map(branch_name).collect(),
            created,
            include_usage,
            metadata,
            fields,
            epoch,
            integrity,
            retry_ms,
            response,
            starting_after,
        };
        options
            .check()
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self {
            branches: options.branches.len(),
            state: Mutex::new(State {
                ledger: Ledger::new(&options, stream_id),
                core: CoreEncoder::new(options),
            }),
        })
    }

    /// A copy for a reader that joins later: what opens a stream is left out.
    fn resumed(&self) -> Self {
        let State { core, ledger } = self.lock().clone();
        Self {
            branches: self.branches,
            state: Mutex::new(State {
                core: core.resumed(),
                ledger,
            }),
        }
    }

    /// The frames that stand before the first record, unless they have been written.
    fn prelude<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut out = Vec::new();
        self.lock().core.prelude(&mut out);
        PyBytes::new(py, &out)
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
            .map(|record| self.borrow(record))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(PyBytes::new(py, &self.encode_batch(&records)))
    }
}

/// `(seq, time_ns, kind, choice, token_count, text)`, then the branch if it is not 0.
struct RecordTuple {
    seq: u64,
    time_ns: u64,
    kind: u8,
    choice: u16,
    token_count: u32,
    text: PyBackedStr,
    branch: u8,
}

impl<'py> FromPyObject<'_, 'py> for RecordTuple {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let has_branch = object.cast::<PyTuple>()?.len() == 7;
        let (seq, time_ns, kind, choice, token_count, text, branch) = if has_branch {
            object.extract()?
        } else {
            let (seq, time_ns, kind, choice, token_count, text) = object.extract()?;
            (seq, time_ns, kind, choice, token_count, text, 0)
        };
        Ok(Self {
            seq,
            time_ns,
            kind,
            choice,
            token_count,
            text,
            branch,
        })
    }
}

impl RecordTuple {
    fn borrow(&self) -> PyResult<Record<'_>> {
        let kind = Kind::from_wire(self.kind)
            .ok_or_else(|| PyValueError::new_err(format!("{} is no kind of record", self.kind)))?;
        Ok(Record {
            seq: self.seq,
            time_ns: self.time_ns,
            kind,
            branch: self.branch,
            choice: self.choice,
            token_count: self.token_count,
            text: &self.text,
        })
    }
}

fn branch_name((model, chunk_id): (String, String)) -> BranchName {
    BranchName { model, chunk_id }
}

fn parse_dialect(name: &str) -> PyResult<Dialect> {
    match name {
        "chat" => Ok(Dialect::Chat),
        "completion" => Ok(Dialect::Completion),
        "native" => Ok(Dialect::Native),
        "responses" => Ok(Dialect::Responses),
        _ => Err(PyValueError::new_err(format!(
            "dialect must be 'chat', 'completion', 'native' or 'responses', not {name:?}"
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
