use super::algorithm::Algorithm;
use super::error::JwtError;
use super::members::{Members, Value};

/// What a token says of its own signature: only names, matched against what is configured.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
}

#[derive(Debug)]
pub(super) struct HeaderReader(Members);

const ALG: usize = 0;
const KID: usize = 1;
const CRIT: usize = 2;

impl HeaderReader {
    pub(super) fn new() -> Self {
        Self(Members::flat(["alg", "kid", "crit"]))
    }

    pub(super) fn read(&self, json: &str) -> Result<Header, JwtError> {
        let mut members = self
            .0
            .read(json)
            .map_err(|_| JwtError::Malformed("its header is not a JSON object"))?;
        // None of the extensions that `crit` could name is understood here (RFC 7515, 4.1.11).
        if !matches!(members.take(CRIT), Value::Absent) {
            return Err(JwtError::Malformed("its header asks for an extension"));
        }
        let Value::Text(name) = members.take(ALG) else {
            return Err(JwtError::Malformed("its header names no algorithm"));
        };
        let kid = match members.take(KID) {
            Value::Absent => None,
            Value::Text(kid) => Some(kid.into_owned()),
            _ => return Err(JwtError::Malformed("its key's name is not a text")),
        };
        let algorithm = Algorithm::parse(&name).ok_or(JwtError::Algorithm)?;
        Ok(Header { algorithm, kid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Header, JwtError> {
        HeaderReader::new().read(json)
    }

    #[test]
    fn algorithm_and_key_are_read_and_the_rest_is_ignored() {
        let header = read(r#"{"typ":"JWT","alg":"ES256","jwk":{"alg":"none"},"kid":"a"}"#).unwrap();
        assert_eq!(header.algorithm, Algorithm::Es256);
        assert_eq!(header.kid.as_deref(), Some("a"));
        assert!(read(r#"{"alg":"RS256"}"#).unwrap().kid.is_none());
        let newer = read(r#"{"alg":"Ed25519"}"#).unwrap();
        assert_eq!(newer.algorithm, Algorithm::EdDsa);
    }

    #[test]
    fn names_of_algorithms_are_exact() {
        for name in [
            "none", "None", "NONE", "rs256", "RS256 ", "RS384", "eddsa", "ed25519", "Ed448", "",
        ] {
            let refused = read(&format!(r#"{{"alg":"{name}"}}"#)).err();
            assert_eq!(refused, Some(JwtError::Algorithm), "{name}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for json in [
            "",
            "[]",
            "{}",
            r#"{"alg":1}"#,
            r#"{"alg":["RS256"]}"#,
            r#"{"alg":"RS256","kid":7}"#,
            r#"{"alg":"RS256","kid":null}"#,
            r#"{"alg":"RS256","crit":[]}"#,
            r#"{"alg":"RS256","crit":["b64"],"b64":false}"#,
            r#"{"alg":"RS256","alg":"RS256"}"#,
            r#"{"alg":"RS256","\u0061lg":"RS256"}"#,
            r#"{"alg":"RS256"} {}"#,
        ] {
            let refused = read(json).err();
            assert!(matches!(refused, Some(JwtError::Malformed(_))), "{json}");
        }
    }
}
