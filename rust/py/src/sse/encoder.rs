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
    fn encode_batch(&self, records: &[RecordTuple]) -> Vec<u8> {
        let mut out = Vec::with_capacity(FRAME_BYTES * records.len());
        let mut state = self.lock();
        for record in records {
            state.encode(&record.borrow(), &mut out);
        }
        out
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_branches(&self, records: &[RecordTuple]) -> PyResult<()> {
        let highest = records.iter().map(|record| record.branch).max();
        match highest {
            Some(branch) if usize::from(branch) >= self.branches => Err(PyValueError::new_err(
                format!("there is no branch {branch} of {}", self.branches),
            )),
            _ => Ok(()),
        }
    }
}

#[pymethods]
impl Encoder {
    #[new]
    #[pyo3(signature = (*, dialect, framing="sse", chunk_id, model, created,
                        include_usage=false, metadata=false, epoch=None, integrity=false,
                        fields=false, retry_ms=None, stream_id="", branches=None, response=None,
                        starting_after=None, after_seq=None))]
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
        after_seq: Option<u64>,
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
            after_seq,
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
        self.check_branches(&records)?;
        Ok(PyBytes::new(py, &self.encode_batch(&records)))
    }
}

/// `(seq, time_ns, kind, choice, token_count, text)`, then the branch if it is not 0.
struct RecordTuple {
    seq: u64,
    time_ns: u64,
    kind: Kind,
    choice: u16,
    token_count: u32,
    text: PyBackedStr,
    branch: u8,
}

impl<'py> FromPyObject<'_, 'py> for RecordTuple {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let tuple = object.cast::<PyTuple>()?;
        let branch = match tuple.len() {
            6 => 0,
            7 => tuple.get_borrowed_item(6)?.extract()?,
            length => {
                return Err(PyValueError::new_err(format!(
                    "a record has 6 or 7 values, not {length}"
                )));
            }
        };
        Ok(Self {
            seq: tuple.get_borrowed_item(0)?.extract()?,
            time_ns: tuple.get_borrowed_item(1)?.extract()?,
            kind: parse_kind(tuple.get_borrowed_item(2)?.extract()?)?,
            choice: tuple.get_borrowed_item(3)?.extract()?,
            token_count: tuple.get_borrowed_item(4)?.extract()?,
            text: tuple.get_borrowed_item(5)?.extract()?,
            branch,
        })
    }
}

impl RecordTuple {
    #[inline]
    fn borrow(&self) -> Record<'_> {
        Record {
            seq: self.seq,
            time_ns: self.time_ns,
            kind: self.kind,
            branch: self.branch,
            choice: self.choice,
            token_count: self.token_count,
            text: &self.text,
        }
    }
}

fn parse_kind(wire: u8) -> PyResult<Kind> {
    Kind::from_wire(wire)
        .ok_or_else(|| PyValueError::new_err(format!("{wire} is no kind of record")))
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
