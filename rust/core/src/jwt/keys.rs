use jsonwebtoken::DecodingKey;

use super::algorithm::Algorithm;
use super::compact::Compact;
use super::error::{JwtError, KeyError};
use super::header::Header;

/// The shortest secret of HS256: that of its hash (RFC 7518, 3.2).
pub const MIN_SECRET_BYTES: usize = 32;

/// Key material with the one algorithm that it is used with.
#[derive(Debug)]
pub(super) struct Key {
    kid: Option<String>,
    algorithm: Algorithm,
    material: DecodingKey,
}

impl Key {
    pub(super) const fn new(
        kid: Option<String>,
        algorithm: Algorithm,
        material: DecodingKey,
    ) -> Self {
        Self {
            kid,
            algorithm,
            material,
        }
    }

    fn holds(&self, token: &Compact<'_>) -> Result<bool, JwtError> {
        let (signature, signed) = (token.signature, token.signed.as_bytes());
        jsonwebtoken::crypto::verify(signature, signed, &self.material, self.algorithm.native())
            .map_err(|_| JwtError::Malformed("its signature is not base64url"))
    }
}

/// What tokens are checked with.
#[derive(Debug)]
pub(super) enum Keys {
    Public(Vec<Key>),
    /// The one secret: there is nothing that a `kid` could choose between.
    Secret(Key),
}

impl Keys {
    pub(super) fn secret(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.len() < MIN_SECRET_BYTES {
            return Err(KeyError::SecretTooShort(secret.len()));
        }
        let material = DecodingKey::from_secret(secret);
        Ok(Self::Secret(Key::new(None, Algorithm::Hs256, material)))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Public(keys) => keys.len(),
            Self::Secret(_) => 1,
        }
    }

    /// Ok if the signature is that of a key that the header fits.
    pub(super) fn check(&self, header: &Header, token: &Compact<'_>) -> Result<(), JwtError> {
        for key in self.fitting(header)? {
            if key.holds(token)? {
                return Ok(());
            }
        }
        Err(JwtError::Signature)
    }

    /// At least one key. Keys of one name are alternatives (RFC 7517, 4.5), usually of different
    /// types; without a name there must be nothing to choose.
    fn fitting(&self, header: &Header) -> Result<Vec<&Key>, JwtError> {
        let fits = |key: &&Key| key.algorithm == header.algorithm;
        match (self, &header.kid) {
            (Self::Secret(key), _) if fits(&key) => Ok(vec![key]),
            (Self::Secret(_), _) => Err(JwtError::Algorithm),
            (Self::Public(keys), None) => {
                let fitting: Vec<&Key> = keys.iter().filter(fits).collect();
                let only = if fitting.len() == 1 {
                    Some(fitting)
                } else {
                    None
                };
                only.ok_or(JwtError::UnknownKey)
            }
            (Self::Public(keys), Some(kid)) => {
                let named = |key: &&Key| key.kid.as_ref() == Some(kid);
                let named: Vec<&Key> = keys.iter().filter(named).collect();
                if named.is_empty() {
                    return Err(JwtError::UnknownKey);
                }
                let fitting: Vec<&Key> = named.into_iter().filter(fits).collect();
                if fitting.is_empty() {
                    return Err(JwtError::Algorithm);
                }
                Ok(fitting)
            }
        }
    }
}
