//! `Encoder` and `SseParser`.

mod encoder;
mod parser;

use pyo3::prelude::*;

pub(crate) use encoder::Encoder;
use parser::{SseEvent, SseEventTooLarge, SseParser};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Encoder>()?;
    module.add_class::<SseEvent>()?;
    module.add_class::<SseParser>()?;
    module.add(
        "SseEventTooLarge",
        module.py().get_type::<SseEventTooLarge>(),
    )
}
