//! `millstream._core`: one thin file per module of `millstream-core`.

use pyo3::prelude::*;

mod attention;
mod decoder;
mod detokenizer;
mod emitter;
mod hub;
mod jwt;
mod limiter;
mod log;
mod ring;
mod sse;
mod toml;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    attention::register(module)?;
    decoder::register(module)?;
    detokenizer::register(module)?;
    emitter::register(module)?;
    hub::register(module)?;
    jwt::register(module)?;
    limiter::register(module)?;
    log::register(module)?;
    ring::register(module)?;
    sse::register(module)?;
    toml::register(module)?;
    Ok(())
}
