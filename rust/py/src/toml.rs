//! A TOML document as Python values.
//!
//! The parsing runs without the GIL: a configuration with a thousand tenants takes a while.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use toml::de::{DeArray, DeTable, DeValue};

/// Levels of tables and arrays.
const DEEPEST: usize = 64;
/// Dots of one key; each makes a level before any level is counted.
const MOST_DOTS: usize = 64;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(parse_toml, module)?)
}

/// What `tomllib.loads` makes of this text, faster.
///
/// Raises `ValueError`, without a reason, for what is not TOML, and also for dates, for whole
/// numbers of more than 64 bits and for what is nested deeply.
#[pyfunction]
fn parse_toml<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    let unix;
    let text = if text.contains('\r') {
        unix = py.detach(|| text.replace("\r\n", "\n"));
        unix.as_str()
    } else {
        text
    };
    let parsed = py.detach(|| {
        if has_long_key(text) {
            return None;
        }
        DeTable::parse(text).ok()
    });
    let table = parsed.ok_or_else(refused)?;
    dict_of(py, table.get_ref(), DEEPEST)
}

/// Whether any line could have a key that is nested too deeply; dots in texts count, too.
fn has_long_key(text: &str) -> bool {
    text.lines()
        .any(|line| line.bytes().filter(|byte| *byte == b'.').count() > MOST_DOTS)
}

fn refused() -> PyErr {
    PyValueError::new_err("is not TOML, or has what is rare")
}

fn dict_of<'py>(
    py: Python<'py>,
    table: &DeTable<'_>,
    levels: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let levels = levels.checked_sub(1).ok_or_else(refused)?;
    let made = PyDict::new(py);
    for (key, value) in table {
        made.set_item(
            key.get_ref().as_ref(),
            value_of(py, value.get_ref(), levels)?,
        )?;
    }
    Ok(made)
}

fn list_of<'py>(
    py: Python<'py>,
    array: &DeArray<'_>,
    levels: usize,
) -> PyResult<Bound<'py, PyList>> {
    let levels = levels.checked_sub(1).ok_or_else(refused)?;
    let made = PyList::empty(py);
    for value in array {
        made.append(value_of(py, value.get_ref(), levels)?)?;
    }
    Ok(made)
}

fn value_of<'py>(
    py: Python<'py>,
    value: &DeValue<'_>,
    levels: usize,
) -> PyResult<Bound<'py, PyAny>> {
    match value {
        DeValue::String(text) => Ok(text.as_ref().into_pyobject(py)?.into_any()),
        DeValue::Integer(number) => {
            let whole = i64::from_str_radix(number.as_str(), number.radix());
            Ok(whole.map_err(|_| refused())?.into_pyobject(py)?.into_any())
        }
        DeValue::Float(number) => {
            let real: f64 = number.as_str().parse().map_err(|_| refused())?;
            Ok(real.into_pyobject(py)?.into_any())
        }
        DeValue::Boolean(truth) => Ok(truth.into_pyobject(py)?.to_owned().into_any()),
        DeValue::Datetime(_) => Err(refused()),
        DeValue::Array(array) => Ok(list_of(py, array, levels)?.into_any()),
        DeValue::Table(table) => Ok(dict_of(py, table, levels)?.into_any()),
    }
}
