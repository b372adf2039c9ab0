//! `JwtVerifier` and what it gives.
//!
//! A check runs without the GIL: a signature takes up to a tenth of a millisecond.

use std::fmt::Display;

use millstream_core::jwt::{self as core, Algorithm, ClaimNames, Claims, Options, Verifier};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

pyo3::create_exception!(
    millstream._core,
    JwtError,
    PyValueError,
    "A token that is refused; `reason` is one stable word."
);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<JwtVerifier>()?;
    module.add_class::<JwtClaims>()?;
    module.add("JwtError", module.py().get_type::<JwtError>())
}

fn refused(py: Python<'_>, error: core::JwtError) -> PyErr {
    let raised = JwtError::new_err(error.to_string());
    match raised.value(py).setattr("reason", error.reason()) {
        Ok(()) => raised,
        Err(failure) => failure,
    }
}

fn invalid(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What a token says whose signature holds.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
struct JwtClaims(Claims);

#[pymethods]
impl JwtClaims {
    #[getter]
    fn subject(&self) -> &str {
        &self.0.subject
    }

    #[getter]
    fn tenant(&self) -> Option<&str> {
        self.0.tenant.as_deref()
    }

    #[getter]
    fn role(&self) -> Option<&str> {
        self.0.role.as_deref()
    }

    #[getter]
    fn scopes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let scopes = self.0.scopes.as_ref();
        scopes.map(|scopes| PyTuple::new(py, scopes)).transpose()
    }

    #[getter]
    fn expires_at(&self) -> f64 {
        self.0.expires_at
    }
}

/// Checks tokens against what is configured.
#[pyclass(frozen, module = "millstream._core")]
#[derive(Debug)]
struct JwtVerifier(Verifier);

#[pymethods]
impl JwtVerifier {
    #[new]
    #[pyo3(signature = (*, algorithms, issuer=None, audience=None, leeway_seconds=30, claims=None))]
    fn new(
        algorithms: Vec<String>,
        issuer: Option<String>,
        audience: Option<String>,
        leeway_seconds: u32,
        claims: Option<(String, String, String)>,
    ) -> PyResult<Self> {
        let algorithms = algorithms.into_iter().map(|name| {
            Algorithm::parse(&name).ok_or_else(|| invalid(format!("unknown algorithm {name:?}")))
        });
        let names = claims.map(|(tenant, role, scopes)| ClaimNames {
            tenant,
            role,
            scopes,
        });
        let options = Options {
            algorithms: algorithms.collect::<PyResult<_>>()?,
            issuer,
            audience,
            leeway_seconds,
            claims: names.unwrap_or_default(),
        };
        Verifier::new(options).map(Self).map_err(invalid)
    }

    #[getter]
    fn key_count(&self) -> usize {
        self.0.key_count()
    }

    fn replace_keys(&self, py: Python<'_>, jwks: &[u8]) -> PyResult<Vec<String>> {
        let unusable = py.detach(|| self.0.replace_keys(jwks)).map_err(invalid)?;
        let line = |(position, why)| format!("key {position}: {why}");
        Ok(unusable.into_iter().map(line).collect())
    }

    fn replace_secret(&self, secret: &[u8]) -> PyResult<()> {
        self.0.replace_secret(secret).map_err(invalid)
    }

    fn verify(
        &self,
        py: Python<'_>,
        token: &Bound<'_, PyAny>,
        now_unix: u64,
    ) -> PyResult<JwtClaims> {
        let bytes = token_bytes(token)?;
        let verified = py.detach(|| self.0.verify(bytes, now_unix));
        verified.map(JwtClaims).map_err(|error| refused(py, error))
    }
}

fn token_bytes<'a>(token: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    if let Ok(text) = token.cast::<PyString>() {
        // Lone surrogates have no UTF-8: as little a token as any other character beyond ASCII.
        return Ok(text.to_str().map_or(b"\xff".as_slice(), str::as_bytes));
    }
    match token.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes()),
        Err(_) => Err(PyTypeError::new_err("a token is str or bytes")),
    }
}
