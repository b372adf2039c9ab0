use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::EncodingKey;
use jsonwebtoken::crypto::sign;
use proptest::prelude::*;

use super::*;

const NOW: u64 = 1_800_000_000;
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const HEADER: &[u8] = br#"{"alg":"HS256"}"#;

fn verifier(algorithms: &[Algorithm]) -> Verifier {
    Verifier::new(Options {
        algorithms: algorithms.to_vec(),
        issuer: None,
        audience: None,
        leeway_seconds: 0,
        claims: ClaimNames::default(),
    })
    .unwrap()
}

fn with_secret() -> Verifier {
    let verifier = verifier(&[Algorithm::Hs256]);
    verifier.replace_secret(SECRET).unwrap();
    verifier
}

fn token(header: &[u8], payload: &[u8]) -> Vec<u8> {
    let encode = |bytes| URL_SAFE_NO_PAD.encode(bytes);
    let text = format!("{}.{}", encode(header), encode(payload));
    let key = EncodingKey::from_secret(SECRET);
    let signature = sign(text.as_bytes(), &key, jsonwebtoken::Algorithm::HS256).unwrap();
    format!("{text}.{signature}").into_bytes()
}

#[test]
fn claims_are_those_of_the_payload() {
    let payload = br#"{"sub":"a","exp":1800000001,"tenant":"t","scope":"x:y z:*","role":"r"}"#;
    let claims = with_secret().verify(&token(HEADER, payload), NOW).unwrap();
    let expected = Claims {
        subject: "a".to_owned(),
        tenant: Some("t".to_owned()),
        role: Some("r".to_owned()),
        scopes: Some(vec!["x:y".to_owned(), "z:*".to_owned()]),
        expires_at: 1_800_000_001.0,
    };
    assert_eq!(claims, expected);
}

#[test]
fn algorithms_that_invite_confusion_are_no_options() {
    for algorithms in [
        vec![],
        vec![Algorithm::Hs256, Algorithm::Rs256],
        vec![Algorithm::EdDsa, Algorithm::Hs256],
    ] {
        let options = Options {
            algorithms,
            issuer: None,
            audience: None,
            leeway_seconds: 0,
            claims: ClaimNames::default(),
        };
        assert!(Verifier::new(options).is_err());
    }
    let public = verifier(&[Algorithm::Rs256]);
    assert_eq!(public.replace_secret(SECRET), Err(KeyError::WrongKind));
    let refused = with_secret().replace_keys(br#"{"keys":[]}"#);
    assert_eq!(refused, Err(KeyError::WrongKind));
}

#[test]
fn keys_that_are_refused_leave_those_in_use() {
    let verifier = with_secret();
    assert_eq!(
        verifier.replace_secret(&SECRET[1..]),
        Err(KeyError::SecretTooShort(31))
    );
    let payload = br#"{"sub":"a","exp":1800000001}"#;
    assert!(verifier.verify(&token(HEADER, payload), NOW).is_ok());
}

#[test]
fn text_of_an_error_holds_nothing_of_the_token() {
    for error in [
        JwtError::Malformed("x"),
        JwtError::Algorithm,
        JwtError::UnknownKey,
        JwtError::Signature,
        JwtError::Expired,
        JwtError::NotYetValid,
        JwtError::Issuer,
        JwtError::Audience,
        JwtError::Claim("x"),
    ] {
        assert!(!error.to_string().is_empty());
        assert!(!error.reason().is_empty());
    }
}

/// JSON or nearly so: what a mutating fuzzer would come up with.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"sub\"",
        "\"exp\"",
        "\"scope\"",
        "\"tenant\"",
        "1e9",
        "-0",
        "1e999",
        "null",
        "true",
        "\\u",
        "\\ud800",
        "\"a\"",
        " ",
        "\u{0}",
        "é",
        "9999999999",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn no_bytes_break_the_verifier(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(with_secret().verify(&bytes, NOW).is_err());
    }

    #[test]
    fn no_token_like_text_breaks_the_verifier(text in "[A-Za-z0-9_-]{0,80}(\\.[A-Za-z0-9_=-]{0,80}){0,4}") {
        prop_assert!(with_secret().verify(text.as_bytes(), NOW).is_err());
    }

    #[test]
    fn no_signed_payload_breaks_the_reader(payload in nearly_json(), now in any::<u64>()) {
        let verified = with_secret().verify(&token(HEADER, &payload), now);
        if let Ok(claims) = verified {
            prop_assert!(!claims.subject.is_empty());
        }
    }

    #[test]
    fn no_signed_bytes_break_the_reader(
        header in prop::collection::vec(any::<u8>(), 0..80),
        payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        prop_assert!(with_secret().verify(&token(&header, &payload), NOW).is_err());
        prop_assert!(with_secret().verify(&token(HEADER, &payload), NOW).is_err());
    }

    #[test]
    fn no_key_set_breaks_the_reader(json in nearly_json(), bytes in any::<Vec<u8>>()) {
        let verifier = verifier(&[Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa]);
        for text in [json, bytes] {
            if verifier.replace_keys(&text).is_ok() {
                prop_assert_eq!(verifier.key_count(), 0);
            }
        }
    }

    /// No key of any bytes panics in the code that checks signatures.
    #[test]
    fn no_public_key_breaks_a_check(
        x in prop::collection::vec(any::<u8>(), 32),
        y in prop::collection::vec(any::<u8>(), 32),
        n in prop::collection::vec(any::<u8>(), 256..300),
        signature in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let [x, y, n, signature] = [x, y, n, signature].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        let jwks = format!(
            r#"{{"keys":[{{"kty":"EC","crv":"P-256","x":"{x}","y":"{y}"}},
                {{"kty":"OKP","crv":"Ed25519","x":"{x}"}},
                {{"kty":"RSA","n":"{n}","e":"AQAB"}}]}}"#
        );
        let algorithms = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
        let names = ["RS256", "ES256", "EdDSA"];
        let verifier = verifier(&algorithms);
        let left_out = verifier.replace_keys(jwks.as_bytes()).unwrap();
        for (algorithm, name) in algorithms.into_iter().zip(names) {
            let header = format!(r#"{{"alg":"{name}"}}"#);
            let text = format!("{}.e30.{signature}", URL_SAFE_NO_PAD.encode(header));
            let refused = verifier.verify(text.as_bytes(), NOW);
            let missing = !left_out.is_empty() && algorithm == Algorithm::Rs256;
            let expected = if missing { JwtError::UnknownKey } else { JwtError::Signature };
            prop_assert_eq!(refused, Err(expected));
        }
    }
}
