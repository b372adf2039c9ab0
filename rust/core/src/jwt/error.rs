use thiserror::Error;

use super::jwk::{MAX_KEYS, MAX_SET_BYTES};
use super::keys::MIN_SECRET_BYTES;

/// Why a token is refused. The text is for logs; it holds nothing of the token.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum JwtError {
    /// No token in compact form of at most [`MAX_TOKEN_BYTES`](super::MAX_TOKEN_BYTES), or one with unreadable JSON.
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    /// An algorithm that is not configured, or not that of the key that the token names.
    #[error("the token's algorithm is not allowed, or not its key's")]
    Algorithm,
    /// A key that the set does not have, or none named and not exactly one to try.
    #[error("no key for the token")]
    UnknownKey,
    /// A signature that does not hold.
    #[error("the signature does not hold")]
    Signature,
    /// An end that has passed.
    #[error("the token has expired")]
    Expired,
    /// A beginning, or a time of issue, that lies ahead.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// An issuer other than the configured one, or none.
    #[error("the token has another issuer")]
    Issuer,
    /// Audiences without the configured one, or none.
    #[error("the token is for another audience")]
    Audience,
    /// A claim that is missing or has a value of a wrong kind.
    #[error("the claim for the {0} is missing or has no usable value")]
    Claim(&'static str),
}

impl JwtError {
    /// A stable word for the kind.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Claim(_) => "claim",
        }
    }
}

/// Options that contradict each other.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OptionsError {
    /// Nothing could ever be accepted.
    #[error("needs at least one algorithm")]
    NoAlgorithm,
    /// A shared secret beside public keys invites taking one for the other.
    #[error("HS256 cannot be mixed with public-key algorithms")]
    Mixed,
    /// A name of a claim that is empty, has an empty part or too many of them.
    #[error("{0:?} is no name of a claim")]
    ClaimName(String),
    /// One claim would have to be a text and an object at once.
    #[error("{0:?} lies inside another claim that is read")]
    ClaimInside(String),
}

/// Why keys are not taken; those in use stay in use.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum KeyError {
    /// A key set above [`MAX_SET_BYTES`].
    #[error("a key set has at most {MAX_SET_BYTES} bytes, not {0}")]
    SetTooLarge(usize),
    /// No JSON object with a list of objects as its `keys`.
    #[error("no JSON Web Key Set: {0}")]
    NoKeySet(String),
    /// More keys than [`MAX_KEYS`].
    #[error("a key set has at most {MAX_KEYS} keys, not {0}")]
    TooManyKeys(usize),
    /// A secret below [`MIN_SECRET_BYTES`].
    #[error("a secret of HS256 has at least {MIN_SECRET_BYTES} bytes, not {0}")]
    SecretTooShort(usize),
    /// Public keys for HS256, or a secret for the others.
    #[error("keys of this kind fit none of the algorithms")]
    WrongKind,
}

/// Why one key of a set is left out.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Unusable {
    /// Members of wrong kinds, or one of them twice.
    #[error("it is no JSON Web Key: {0}")]
    NoKey(String),
    /// A type or curve that no algorithm here works with.
    #[error("its type is not supported")]
    Type,
    /// A key of an algorithm that is not configured.
    #[error("its algorithm is not configured")]
    Algorithm,
    /// A key for encryption, or not for verifying.
    #[error("it is not for checking signatures")]
    Use,
    /// A member of the public key that is missing, not base64url or of a wrong length.
    #[error("its member {0:?} is missing or wrong")]
    Member(&'static str),
    /// An RSA modulus below 2048 or above 8192 bits.
    #[error("its modulus of {0} bits is not within 2048 and 8192")]
    Modulus(usize),
}
