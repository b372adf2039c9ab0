//! `LlamaDecoder`: a Llama-shaped model on the CPU, one call a step.

use std::sync::{Mutex, PoisonError};

use millstream_core::attention::{Bf16, F32, Storage, Threads};
use millstream_core::decoder::{
    Codes, DecoderError, LayerWeights, Linear, Llama, LlamaShape, LlamaWeights,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::attention::{Floats, Row, Shape, row_specs, start_threads};

/// A row-major matrix of codes, read from the attributes of any object.
#[derive(FromPyObject)]
struct Quantized {
    bits: u32,
    codes: PyBuffer<u8>,
    scales: Floats,
    offsets: Floats,
}

/// A row-major matrix.
#[derive(FromPyObject)]
enum Matrix {
    Quantized(Quantized),
    Plain(Floats),
}

/// Weights of one layer, read from the attributes of any object; gate and up take turns by 32 rows.
#[derive(FromPyObject)]
struct Layer {
    input_norm: Floats,
    qkv: Matrix,
    output: Matrix,
    mlp_norm: Floats,
    gate_up: Matrix,
    down: Matrix,
}

/// Weights around the layers and constants, read from the attributes of any object.
#[derive(FromPyObject)]
struct Frame {
    embedding: Matrix,
    norm: Floats,
    head: Option<Matrix>,
    frequencies: Floats,
    hidden: usize,
    positions: usize,
    norm_eps: f32,
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn decoder_error(error: DecoderError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl Matrix {
    fn len(&self) -> usize {
        match self {
            Self::Quantized(matrix) => matrix.codes.item_count(),
            Self::Plain(rows) => rows.len(),
        }
    }

    fn pack<E: Storage>(&self, py: Python<'_>, inputs: usize) -> PyResult<Linear<E>> {
        let packed = match self {
            Self::Plain(rows) => {
                let rows = rows.read(py)?;
                py.detach(|| Linear::new(inputs, &rows))
            }
            Self::Quantized(matrix) => {
                let codes = matrix.codes.to_vec(py)?;
                let (scales, offsets) = (matrix.scales.read(py)?, matrix.offsets.read(py)?);
                let matrix_of = Codes {
                    inputs,
                    codes: &codes,
                    scales: &scales,
                    offsets: &offsets,
                };
                py.detach(|| match matrix.bits {
                    4 => Linear::nibbles(&matrix_of),
                    _ => Linear::bytes(&matrix_of),
                })
            }
        };
        packed.map_err(decoder_error)
    }
}

fn layer<E: Storage>(py: Python<'_>, hidden: usize, layer: &Layer) -> PyResult<LayerWeights<E>> {
    let wide = |matrix: &Matrix| matrix.pack(py, matrix.len() / hidden.max(1));
    Ok(LayerWeights {
        input_norm: layer.input_norm.read(py)?,
        qkv: layer.qkv.pack(py, hidden)?,
        output: wide(&layer.output)?,
        mlp_norm: layer.mlp_norm.read(py)?,
        gate_up: layer.gate_up.pack(py, hidden)?,
        down: wide(&layer.down)?,
    })
}

fn model<E: Storage>(
    shape: Shape,
    frame: &Frame,
    layers: &Bound<'_, PyAny>,
    threads: Threads,
) -> PyResult<Llama<E>> {
    let py = layers.py();
    let read = |item: PyResult<Bound<'_, PyAny>>| layer(py, frame.hidden, &item?.extract()?);
    let head = frame.head.as_ref();
    let weights = LlamaWeights {
        embedding: frame.embedding.pack(py, frame.hidden)?,
        layers: layers.try_iter()?.map(read).collect::<PyResult<_>>()?,
        norm: frame.norm.read(py)?,
        head: head.map(|rows| rows.pack(py, frame.hidden)).transpose()?,
        frequencies: frame.frequencies.read(py)?,
    };
    let shape = LlamaShape {
        cache: shape.into(),
        hidden: frame.hidden,
        positions: frame.positions,
        norm_eps: frame.norm_eps,
    };
    Llama::new(shape, weights, threads).map_err(decoder_error)
}

#[derive(Debug)]
enum Model {
    Full(Llama<F32>),
    Half(Llama<Bf16>),
}

/// Runs `$body` with `$model` bound to the model, whatever its storage.
macro_rules! with_model {
    ($this:expr, $model:ident => $body:expr) => {
        match &mut *$this.model.lock().unwrap_or_else(PoisonError::into_inner) {
            Model::Full($model) => $body,
            Model::Half($model) => $body,
        }
    };
}

/// A Llama-shaped decoder with its paged cache and its own threads.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct LlamaDecoder {
    model: Mutex<Model>,
    vocabulary: usize,
}

#[pymethods]
#[expect(
    clippy::needless_pass_by_value,
    reason = "extracted arguments are owned"
)]
impl LlamaDecoder {
    #[new]
    #[pyo3(signature = (shape, frame, layers, *, bfloat16, threads))]
    fn new(
        shape: Shape,
        frame: Frame,
        layers: &Bound<'_, PyAny>,
        bfloat16: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let threads = start_threads(threads)?;
        let (model, vocabulary) = if bfloat16 {
            let model = model::<Bf16>(shape, &frame, layers, threads)?;
            let vocabulary = model.vocabulary();
            (Model::Half(model), vocabulary)
        } else {
            let model = model::<F32>(shape, &frame, layers, threads)?;
            let vocabulary = model.vocabulary();
            (Model::Full(model), vocabulary)
        };
        Ok(Self {
            model: Mutex::new(model),
            vocabulary,
        })
    }

    fn extend_pages(&self, slot: usize, pages: Vec<usize>) -> PyResult<()> {
        let done = with_model!(self, model => model.cache_mut().extend_pages(slot, &pages));
        done.map_err(|error| decoder_error(error.into()))
    }

    fn clear_pages(&self, slot: usize) -> PyResult<()> {
        let done = with_model!(self, model => model.cache_mut().clear_pages(slot));
        done.map_err(|error| decoder_error(error.into()))
    }

    fn greedy(
        &self,
        py: Python<'_>,
        rows: Vec<Row>,
        ids: Vec<usize>,
        samples: Vec<usize>,
    ) -> PyResult<Vec<usize>> {
        let rows = row_specs(&rows);
        py.detach(|| with_model!(self, model => model.greedy(&rows, &ids, &samples)))
            .map_err(decoder_error)
    }

    fn logits(
        &self,
        py: Python<'_>,
        rows: Vec<Row>,
        ids: Vec<usize>,
        samples: Vec<usize>,
        output: Floats,
    ) -> PyResult<()> {
        let rows = row_specs(&rows);
        let mut logits = vec![0.0; samples.len() * self.vocabulary];
        py.detach(|| with_model!(self, model => model.logits(&rows, &ids, &samples, &mut logits)))
            .map_err(decoder_error)?;
        output.write(py, &logits)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LlamaDecoder>()
}
