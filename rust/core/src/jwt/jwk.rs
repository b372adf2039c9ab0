use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::algorithm::Algorithm;
use super::error::{KeyError, Unusable};
use super::keys::Key;

/// The largest key set that is read.
pub const MAX_SET_BYTES: usize = 1 << 20;
/// The most keys that a set may have.
pub const MAX_KEYS: usize = 256;

const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
const POINT_BYTES: usize = 32;

#[derive(Deserialize)]
struct Set<'j> {
    #[serde(borrow)]
    keys: Vec<&'j RawValue>,
}

/// The members of a JSON Web Key (RFC 7517) that matter; a private key's are not even looked at.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The usable keys of a set, and why which of the others are left out (RFC 7517, 5: a key that is
/// not understood does not spoil the set).
#[derive(Debug)]
pub(super) struct Sorted {
    pub(super) keys: Vec<Key>,
    pub(super) unusable: Vec<(usize, Unusable)>,
}

pub(super) fn read_set(json: &[u8], algorithms: &[Algorithm]) -> Result<Sorted, KeyError> {
    if json.len() > MAX_SET_BYTES {
        return Err(KeyError::SetTooLarge(json.len()));
    }
    let set: Set<'_> =
        serde_json::from_slice(json).map_err(|error| KeyError::NoKeySet(error.to_string()))?;
    if set.keys.len() > MAX_KEYS {
        return Err(KeyError::TooManyKeys(set.keys.len()));
    }
    let mut sorted = Sorted {
        keys: Vec::with_capacity(set.keys.len()),
        unusable: Vec::new(),
    };
    for (position, json) in set.keys.into_iter().enumerate() {
        match read_key(json.get(), algorithms) {
            Ok(key) => sorted.keys.push(key),
            Err(unusable) => sorted.unusable.push((position, unusable)),
        }
    }
    Ok(sorted)
}

fn read_key(json: &str, algorithms: &[Algorithm]) -> Result<Key, Unusable> {
    let jwk: Jwk =
        serde_json::from_str(json).map_err(|error| Unusable::NoKey(error.to_string()))?;
    let algorithm = algorithm_of(&jwk).ok_or(Unusable::Type)?;
    let named = jwk.alg.as_deref().map_or(Some(algorithm), Algorithm::parse);
    if named != Some(algorithm) || !algorithms.contains(&algorithm) {
        return Err(Unusable::Algorithm);
    }
    if !is_for_signatures(&jwk) {
        return Err(Unusable::Use);
    }
    let material = match algorithm {
        Algorithm::Rs256 => rsa(&jwk)?,
        Algorithm::Es256 => p256(&jwk)?,
        Algorithm::EdDsa => ed25519(&jwk)?,
        Algorithm::Hs256 => return Err(Unusable::Type),
    };
    Ok(Key::new(jwk.kid, algorithm, material))
}

/// The one algorithm that a key of this type is used with here. A secret (`oct`) is none of them:
/// it has no place in a set that is handed out.
fn algorithm_of(jwk: &Jwk) -> Option<Algorithm> {
    match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => Some(Algorithm::Rs256),
        ("EC", Some("P-256")) => Some(Algorithm::Es256),
        ("OKP", Some("Ed25519")) => Some(Algorithm::EdDsa),
        _ => None,
    }
}

fn is_for_signatures(jwk: &Jwk) -> bool {
    let usage = jwk.usage.as_deref().is_none_or(|usage| usage == "sig");
    let operations = jwk.key_ops.as_deref();
    usage && operations.is_none_or(|operations| operations.iter().any(|it| it == "verify"))
}

fn member(name: &'static str, value: Option<&String>) -> Result<Vec<u8>, Unusable> {
    let wrong = Unusable::Member(name);
    let value = value.ok_or_else(|| wrong.clone())?;
    URL_SAFE_NO_PAD.decode(value).map_err(|_| wrong)
}

fn rsa(jwk: &Jwk) -> Result<DecodingKey, Unusable> {
    let modulus = number(member("n", jwk.n.as_ref())?);
    let exponent = number(member("e", jwk.e.as_ref())?);
    let bits = bits(&modulus);
    if !RSA_BITS.contains(&bits) {
        return Err(Unusable::Modulus(bits));
    }
    // An exponent of 1 would make every signature its own forgery.
    let small = exponent.len() > 4 || exponent == [1];
    if small || exponent.last().is_none_or(|last| last % 2 == 0) {
        return Err(Unusable::Member("e"));
    }
    Ok(DecodingKey::from_rsa_raw_components(&modulus, &exponent))
}

/// Big-endian without leading zeros.
fn number(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    bytes
}

fn bits(number: &[u8]) -> usize {
    let unused = number.first().map_or(0, |first| first.leading_zeros());
    number.len() * 8 - unused as usize
}

fn p256(jwk: &Jwk) -> Result<DecodingKey, Unusable> {
    for (name, value) in [("x", jwk.x.as_ref()), ("y", jwk.y.as_ref())] {
        coordinate(name, value)?;
    }
    let (Some(x), Some(y)) = (&jwk.x, &jwk.y) else {
        return Err(Unusable::Member("y"));
    };
    DecodingKey::from_ec_components(x, y).map_err(|_| Unusable::Member("x"))
}

fn ed25519(jwk: &Jwk) -> Result<DecodingKey, Unusable> {
    let point = coordinate("x", jwk.x.as_ref())?;
    Ok(DecodingKey::from_ed_der(&point))
}

fn coordinate(name: &'static str, value: Option<&String>) -> Result<Vec<u8>, Unusable> {
    let bytes = member(name, value)?;
    if bytes.len() == POINT_BYTES {
        Ok(bytes)
    } else {
        Err(Unusable::Member(name))
    }
}
