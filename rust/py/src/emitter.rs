//! `Emitter`: the ids of one engine step in, records in the workers' rings out.

use std::sync::Mutex;

use millstream_core::detokenizer::Emitter as Core;
use pyo3::prelude::*;

use crate::detokenizer::{Vocabulary, detokenizer_error};
use crate::ring::{RingProducer, lock};

/// The engine's way out, called once per step.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct Emitter {
    emitter: Mutex<Core>,
}

#[pymethods]
#[expect(
    clippy::needless_pass_by_value,
    reason = "extracted arguments are owned"
)]
impl Emitter {
    #[new]
    fn new(vocabulary: &Vocabulary) -> Self {
        Self {
            emitter: Mutex::new(Core::new(vocabulary.core())),
        }
    }

    fn open(
        &self,
        ring: &RingProducer,
        stream: u64,
        choice: u16,
        stop: Vec<String>,
    ) -> PyResult<usize> {
        lock(&self.emitter)
            .open(ring.core(), stream, choice, &stop)
            .map_err(detokenizer_error)
    }

    fn step(&self, slots: Vec<usize>, ids: Vec<i64>, time_ns: u64) -> PyResult<Vec<usize>> {
        lock(&self.emitter)
            .step(&slots, &ids, time_ns)
            .map_err(detokenizer_error)
    }

    fn finish(&self, slot: usize, reason: &str, time_ns: u64) -> PyResult<()> {
        lock(&self.emitter)
            .finish(slot, reason, time_ns)
            .map_err(detokenizer_error)
    }

    fn close(&self, slot: usize) -> PyResult<()> {
        lock(&self.emitter).close(slot).map_err(detokenizer_error)
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Emitter>()
}
