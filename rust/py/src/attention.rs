//! `PagedAttention`: the paged cache and its attention, for models written in torch.

use std::sync::{Mutex, PoisonError};

use millstream_core::attention::{
    AttentionError, Bf16, CacheShape, F32, PagedCache, RowSpec, Storage, Threads, TokenPlace,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Slot, position of the first token, number of tokens.
pub(crate) type Row = (usize, usize, usize);

pub(crate) fn row_specs(rows: &[Row]) -> Vec<RowSpec> {
    rows.iter()
        .map(|&(slot, start, count)| RowSpec { slot, start, count })
        .collect()
}

pub(crate) fn start_threads(count: usize) -> PyResult<Threads> {
    Threads::new(count).map_err(PyRuntimeError::new_err)
}

fn attention_error(error: AttentionError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Sizes of a cache, read from the attributes of any object.
#[derive(FromPyObject)]
pub(crate) struct Shape {
    layers: usize,
    pages: usize,
    slots: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
}

impl From<Shape> for CacheShape {
    fn from(shape: Shape) -> Self {
        Self {
            layers: shape.layers,
            pages: shape.pages,
            slots: shape.slots,
            heads: shape.heads,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
        }
    }
}

/// A C-contiguous float32 array (a numpy array, not a torch tensor).
pub(crate) struct Floats(PyBuffer<f32>);

impl<'a, 'py> FromPyObject<'a, 'py> for Floats {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        PyBuffer::get(&object).map(Self)
    }
}

impl Floats {
    pub(crate) fn read(&self, py: Python<'_>) -> PyResult<Vec<f32>> {
        self.0.to_vec(py)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.item_count()
    }

    pub(crate) fn write(&self, py: Python<'_>, values: &[f32]) -> PyResult<()> {
        self.0.copy_from_slice(py, values)
    }
}

#[derive(Debug)]
struct Step<E: Storage> {
    cache: PagedCache<E>,
    places: Vec<TokenPlace>,
}

impl<E: Storage> Step<E> {
    fn new(shape: CacheShape) -> Result<Self, AttentionError> {
        Ok(Self {
            cache: PagedCache::new(shape)?,
            places: Vec::new(),
        })
    }

    fn begin(&mut self, rows: &[Row]) -> Result<usize, AttentionError> {
        self.places = self.cache.places(&row_specs(rows))?;
        Ok(self.places.len())
    }

    fn attend(
        &mut self,
        layer: usize,
        mut queries: Vec<f32>,
        keys: &[f32],
        values: &[f32],
    ) -> Vec<f32> {
        let shape = *self.cache.shape();
        let heads = keys
            .chunks(shape.head_dim)
            .zip(values.chunks(shape.head_dim));
        for (index, (key, value)) in heads.enumerate() {
            let place = self.places[index / shape.kv_heads];
            self.cache
                .write(layer, place, index % shape.kv_heads, key, value);
        }
        let scale = 1.0 / (shape.head_dim as f32).sqrt();
        queries.iter_mut().for_each(|value| *value *= scale);
        let mut output = vec![0.0; queries.len()];
        self.cache
            .attend(layer, &self.places, &queries, &mut output);
        output
    }
}

#[derive(Debug)]
enum Stored {
    Full(Step<F32>),
    Half(Step<Bf16>),
}

/// Runs `$body` with `$step` bound to the state, whatever its storage.
macro_rules! with_step {
    ($this:expr, $step:ident => $body:expr) => {
        match &mut *$this.stored.lock().unwrap_or_else(PoisonError::into_inner) {
            Stored::Full($step) => $body,
            Stored::Half($step) => $body,
        }
    };
}

/// A paged cache of keys and values with attention over it.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct PagedAttention {
    stored: Mutex<Stored>,
    threads: Threads,
    shape: CacheShape,
}

#[pymethods]
impl PagedAttention {
    #[new]
    #[pyo3(signature = (shape, *, bfloat16, threads))]
    fn new(shape: Shape, bfloat16: bool, threads: usize) -> PyResult<Self> {
        let shape = CacheShape::from(shape);
        let stored = if bfloat16 {
            Step::new(shape).map(Stored::Half)
        } else {
            Step::new(shape).map(Stored::Full)
        };
        Ok(Self {
            stored: Mutex::new(stored.map_err(attention_error)?),
            threads: start_threads(threads)?,
            shape,
        })
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "extracted arguments are owned"
    )]
    fn extend_pages(&self, slot: usize, pages: Vec<usize>) -> PyResult<()> {
        with_step!(self, step => step.cache.extend_pages(slot, &pages)).map_err(attention_error)
    }

    fn clear_pages(&self, slot: usize) -> PyResult<()> {
        with_step!(self, step => step.cache.clear_pages(slot)).map_err(attention_error)
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "extracted arguments are owned"
    )]
    fn begin(&self, rows: Vec<Row>) -> PyResult<usize> {
        with_step!(self, step => step.begin(&rows)).map_err(attention_error)
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "extracted arguments are owned"
    )]
    fn attend(
        &self,
        py: Python<'_>,
        layer: usize,
        query: Floats,
        key: Floats,
        value: Floats,
        output: Floats,
    ) -> PyResult<()> {
        let (queries, keys, values) = (query.read(py)?, key.read(py)?, value.read(py)?);
        let answer = py.detach(|| {
            with_step!(self, step => {
                self.check(layer, step.places.len(), queries.len(), keys.len(), values.len())?;
                Ok(self.threads.run(|| step.attend(layer, queries, &keys, &values)))
            })
        });
        output.write(py, &answer.map_err(attention_error)?)
    }
}

impl PagedAttention {
    fn check(
        &self,
        layer: usize,
        tokens: usize,
        queries: usize,
        keys: usize,
        values: usize,
    ) -> Result<(), AttentionError> {
        let token = tokens * self.shape.head_dim;
        let sizes = [
            (
                "layer",
                layer.min(self.shape.layers),
                layer.min(self.shape.layers - 1),
            ),
            ("query", queries, token * self.shape.heads),
            ("key", keys, token * self.shape.kv_heads),
            ("value", values, token * self.shape.kv_heads),
        ];
        for (name, found, expected) in sizes {
            if found != expected {
                return Err(AttentionError::Length {
                    name,
                    found,
                    expected,
                });
            }
        }
        Ok(())
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PagedAttention>()
}
