//! `RingConsumer` and `RingProducer`: the two ends of the shared-memory ring.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_core::record::Kind;
use millstream_core::ring::{Consumer, DEFAULT_CAPACITY, Outbox, RingError, RingRecord, adopt};
use pyo3::exceptions::{PyConnectionError, PyValueError};
use pyo3::prelude::*;

/// (stream, `time_ns`, kind, choice, `token_count`, text)
type RecordTuple = (u64, u64, u8, u16, u32, String);

/// The worker's end of a ring: makes the memory and the wake-up descriptor, takes records out.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct RingConsumer {
    consumer: Arc<Mutex<Consumer>>,
    // Beside the lock, so that nobody waits for a drain to learn a number.
    memory_fd: RawFd,
    wait_fd: RawFd,
    notify_fd: RawFd,
}

impl RingConsumer {
    pub(crate) fn core(&self) -> Arc<Mutex<Consumer>> {
        Arc::clone(&self.consumer)
    }
}

#[pymethods]
impl RingConsumer {
    #[staticmethod]
    #[pyo3(signature = (capacity = DEFAULT_CAPACITY), text_signature = "(capacity=8388608)")]
    fn create(capacity: usize) -> PyResult<Self> {
        let consumer = Consumer::create(capacity).map_err(ring_error)?;
        Ok(Self {
            memory_fd: consumer.memory_fd(),
            wait_fd: consumer.wait_fd(),
            notify_fd: consumer.notify_fd(),
            consumer: Arc::new(Mutex::new(consumer)),
        })
    }

    const fn memory_fd(&self) -> RawFd {
        self.memory_fd
    }

    const fn fileno(&self) -> RawFd {
        self.wait_fd
    }

    const fn notify_fd(&self) -> RawFd {
        self.notify_fd
    }

    fn drain(&self, py: Python<'_>) -> PyResult<Vec<RecordTuple>> {
        py.detach(|| {
            let mut records = Vec::new();
            lock(&self.consumer)
                .drain(|record| records.push(record_tuple(&record)))
                .map_err(ring_error)?;
            Ok(records)
        })
    }
}

/// The engine's end of a ring: puts records in, never blocks on a full one.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
pub(crate) struct RingProducer {
    outbox: Arc<Mutex<Outbox>>,
}

impl RingProducer {
    pub(crate) fn core(&self) -> Arc<Mutex<Outbox>> {
        Arc::clone(&self.outbox)
    }
}

#[pymethods]
impl RingProducer {
    #[new]
    fn new(memory_fd: RawFd, event_fd: RawFd) -> PyResult<Self> {
        if memory_fd == event_fd {
            return Err(PyValueError::new_err("the two descriptors are the same"));
        }
        let (memory, notify) = (take_over(memory_fd), take_over(event_fd));
        let outbox = Outbox::open(memory?, notify?).map_err(ring_error)?;
        Ok(Self {
            outbox: Arc::new(Mutex::new(outbox)),
        })
    }

    #[pyo3(signature = (stream, kind, text, *, choice = 0, token_count = 0, time_ns))]
    fn write(
        &self,
        stream: u64,
        kind: u8,
        text: &str,
        choice: u16,
        token_count: u32,
        time_ns: u64,
    ) -> PyResult<()> {
        let kind = Kind::from_wire(kind)
            .ok_or_else(|| PyValueError::new_err(format!("no record kind has the value {kind}")))?;
        let record = RingRecord {
            stream,
            time_ns,
            kind,
            choice,
            token_count,
            text,
        };
        lock(&self.outbox).write(&record).map_err(ring_error)
    }

    fn flush(&self) -> PyResult<usize> {
        lock(&self.outbox).flush().map_err(ring_error)
    }

    fn discard(&self, stream: u64) {
        lock(&self.outbox).discard(stream);
    }

    #[getter]
    fn pending(&self) -> usize {
        lock(&self.outbox).pending()
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RingConsumer>()?;
    module.add_class::<RingProducer>()
}

/// The lock, whatever a panic elsewhere left: the ring's own checks find damage.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn ring_error(error: RingError) -> PyErr {
    match error {
        RingError::Corrupt(_) => PyConnectionError::new_err(error.to_string()),
        RingError::Capacity(_) | RingError::TooLong { .. } => {
            PyValueError::new_err(error.to_string())
        }
        RingError::Io(error) => error.into(),
    }
}

fn record_tuple(record: &RingRecord<'_>) -> RecordTuple {
    (
        record.stream,
        record.time_ns,
        record.kind as u8,
        record.choice,
        record.token_count,
        record.text.to_owned(),
    )
}

fn take_over(descriptor: RawFd) -> PyResult<OwnedFd> {
    // SAFETY: the caller hands the descriptor over, as the class says; it is used nowhere else.
    #[allow(unsafe_code)]
    Ok(unsafe { adopt(descriptor) }?)
}
