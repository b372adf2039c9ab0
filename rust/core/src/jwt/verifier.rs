use std::sync::{Arc, PoisonError, RwLock};

use super::algorithm::Algorithm;
use super::claims::{ClaimNames, ClaimReader, Claims};
use super::compact::{Compact, decode_text};
use super::error::{JwtError, KeyError, OptionsError, Unusable};
use super::header::HeaderReader;
use super::jwk::read_set;
use super::keys::Keys;

/// What is configured, and never taken from a token.
#[derive(Clone, Debug)]
pub struct Options {
    /// The only algorithms that are accepted.
    pub algorithms: Vec<Algorithm>,
    /// The `iss` that a token must have; `None` does not look at it.
    pub issuer: Option<String>,
    /// The member that `aud` must have; `None` does not look at it.
    pub audience: Option<String>,
    /// How far clocks may differ.
    pub leeway_seconds: u32,
    /// Names of the claims that may be called anything.
    pub claims: ClaimNames,
}

/// Checks tokens with keys that may be replaced at any time, by any number of threads.
#[derive(Debug)]
pub struct Verifier {
    algorithms: Vec<Algorithm>,
    header: HeaderReader,
    claims: ClaimReader,
    /// Replaced whole; a check that is under way goes on with what it has.
    keys: RwLock<Arc<Keys>>,
}

impl Verifier {
    /// A verifier without keys, which refuses every token.
    ///
    /// # Errors
    /// No algorithm, HS256 beside another one, unusable names of claims.
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        let algorithms = options.algorithms;
        if algorithms.is_empty() {
            return Err(OptionsError::NoAlgorithm);
        }
        let secret = |it: &Algorithm| *it == Algorithm::Hs256;
        if algorithms.iter().any(secret) && !algorithms.iter().all(secret) {
            return Err(OptionsError::Mixed);
        }
        let claims = ClaimReader::new(
            &options.claims,
            options.issuer,
            options.audience,
            options.leeway_seconds,
        )?;
        Ok(Self {
            algorithms,
            header: HeaderReader::new(),
            claims,
            keys: RwLock::new(Arc::new(Keys::Public(Vec::new()))),
        })
    }

    /// Takes the keys of a JSON Web Key Set in place of those in use, even if none is usable:
    /// an issuer that takes its keys back means it. Returns why which keys are left out, by their
    /// position in the set.
    ///
    /// # Errors
    /// Text that is no key set, one that is too large, or a verifier of HS256.
    pub fn replace_keys(&self, json: &[u8]) -> Result<Vec<(usize, Unusable)>, KeyError> {
        if self.is_symmetric() {
            return Err(KeyError::WrongKind);
        }
        let sorted = read_set(json, &self.algorithms)?;
        self.replace(Keys::Public(sorted.keys));
        Ok(sorted.unusable)
    }

    /// Takes a secret in place of the one in use.
    ///
    /// # Errors
    /// A secret that is too short, or a verifier of other algorithms than HS256.
    pub fn replace_secret(&self, secret: &[u8]) -> Result<(), KeyError> {
        if !self.is_symmetric() {
            return Err(KeyError::WrongKind);
        }
        self.replace(Keys::secret(secret)?);
        Ok(())
    }

    fn is_symmetric(&self) -> bool {
        self.algorithms.contains(&Algorithm::Hs256)
    }

    fn replace(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many keys are in use.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.keys().len()
    }

    /// The claims of a token that holds at `now_unix` (seconds). No claim is read before the
    /// signature holds.
    ///
    /// # Errors
    /// The first of the [`JwtError`]s, in the order in which they are declared but for `Claim`.
    pub fn verify(&self, token: &[u8], now_unix: u64) -> Result<Claims, JwtError> {
        let token = Compact::split(token)?;
        let header = self.header.read(&decode_text(token.header)?)?;
        if !self.algorithms.contains(&header.algorithm) {
            return Err(JwtError::Algorithm);
        }
        self.keys().check(&header, &token)?;
        #[expect(clippy::cast_precision_loss, reason = "exact for 285 million years")]
        let now = now_unix as f64;
        self.claims.read(&decode_text(token.payload)?, now)
    }
}
