use std::cell::Cell;
use std::sync::Mutex;

use millstream_core::log::Cursor;
use millstream_core::sse::Encoder as CoreEncoder;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{Log, Notifier, SharedLog, Waiter, log_error};
use crate::ring::lock;
use crate::sse::Encoder;

/// One client connection that follows a log.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct Reader {
    log: SharedLog,
    place: Mutex<Place>,
}

#[derive(Debug)]
struct Place {
    cursor: Cursor,
    encoder: CoreEncoder,
}

thread_local! {
    /// Frames are written here and copied once into their `bytes`: a buffer that all readers of a
    /// loop share stays in the cache and costs an idle reader nothing.
    static FRAMES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A larger buffer, left by a long catch-up, is given back.
const KEPT_BUFFER_BYTES: usize = 1 << 18;

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (log, encoder, *, after = 0))]
    fn new(log: &Log, encoder: &Encoder, after: u64) -> PyResult<Self> {
        let cursor = log.core.cursor(after).map_err(log_error)?;
        let encoder = match after {
            0 => encoder.core(),
            _ => encoder.core().resumed(),
        };
        Ok(Self {
            log: log.core(),
            place: Mutex::new(Place { cursor, encoder }),
        })
    }

    #[pyo3(signature = (max_bytes = 65536))]
    fn take<'py>(&self, py: Python<'py>, max_bytes: usize) -> Bound<'py, PyBytes> {
        let mut frames = FRAMES.take();
        {
            let mut place = lock(&self.place);
            let Place { cursor, encoder } = &mut *place;
            self.log.take(cursor, encoder, max_bytes, &mut frames);
        }
        let bytes = PyBytes::new(py, &frames);
        if frames.capacity() <= KEPT_BUFFER_BYTES {
            frames.clear();
            FRAMES.set(frames);
        }
        bytes
    }

    fn park(&self, waiter: Py<PyAny>, notifier: &Notifier) -> bool {
        let waiter = Waiter::new(waiter, notifier.core());
        // Bound to a name: what comes back is dropped only after the lock is.
        let parked = self.log.park(&mut lock(&self.place).cursor, waiter);
        parked.is_ok()
    }

    fn unpark(&self) {
        let waiter = self.log.unpark(&mut lock(&self.place).cursor);
        drop(waiter);
    }

    fn skip_gap(&self) -> bool {
        lock(&self.place).cursor.skip_gap()
    }

    #[getter]
    fn finished(&self) -> bool {
        lock(&self.place).cursor.finished()
    }

    #[getter]
    fn cursor(&self) -> u64 {
        lock(&self.place).cursor.seq()
    }

    #[getter]
    fn gap(&self) -> Option<(u64, u64)> {
        let gap = lock(&self.place).cursor.gap()?;
        Some((gap.oldest, gap.latest))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.unpark();
    }
}
