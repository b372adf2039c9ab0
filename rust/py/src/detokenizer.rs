//! `Vocabulary` and `Detokenizer`: token ids to text, one step at a time.

use std::sync::{Arc, Mutex};

use millstream_core::detokenizer::{Detokenizer as Core, DetokenizerError, Vocabulary as Table};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::ring::{lock, ring_error};

/// The bytes of every token id, shared by all that decode with it.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct Vocabulary {
    table: Arc<Table>,
}

impl Vocabulary {
    pub(crate) fn core(&self) -> Arc<Table> {
        Arc::clone(&self.table)
    }
}

#[pymethods]
impl Vocabulary {
    #[new]
    #[pyo3(signature = (tokens, skip = None))]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "extracted arguments are owned"
    )]
    fn new(tokens: Vec<PyBackedBytes>, skip: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let skip = skip.map_or(Ok(Vec::new()), |ids| {
            ids.try_iter()?
                .map(|id| id?.extract())
                .collect::<PyResult<Vec<i64>>>()
        })?;
        Ok(Self {
            table: Arc::new(Table::new(&tokens, &skip).map_err(detokenizer_error)?),
        })
    }

    fn __len__(&self) -> usize {
        self.table.len()
    }
}

/// One choice's ids on their way to text.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct Detokenizer {
    detokenizer: Mutex<Core>,
}

#[pymethods]
impl Detokenizer {
    #[new]
    #[pyo3(signature = (vocabulary, stop = Vec::new()), text_signature = "(vocabulary, stop=[])")]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "extracted arguments are owned"
    )]
    fn new(vocabulary: &Vocabulary, stop: Vec<String>) -> PyResult<Self> {
        let core = Core::new(vocabulary.core(), &stop).map_err(detokenizer_error)?;
        Ok(Self {
            detokenizer: Mutex::new(core),
        })
    }

    fn push(&self, token: i64) -> PyResult<String> {
        let mut text = String::new();
        lock(&self.detokenizer)
            .push(token, &mut text)
            .map_err(detokenizer_error)?;
        Ok(text)
    }

    fn finish(&self) -> String {
        let mut text = String::new();
        lock(&self.detokenizer).finish(&mut text);
        text
    }

    #[getter]
    fn stopped(&self) -> bool {
        lock(&self.detokenizer).stopped()
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Vocabulary>()?;
    module.add_class::<Detokenizer>()
}

pub(crate) fn detokenizer_error(error: DetokenizerError) -> PyErr {
    match error {
        DetokenizerError::Ring(error) => ring_error(error),
        other => PyValueError::new_err(other.to_string()),
    }
}
