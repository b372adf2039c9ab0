"""Tokens that try to decide how they are checked (RFC 8725, 2), or to break who reads them."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.utils import base64url_decode

from millstream._core import JwtError, JwtVerifier
from tests.reference.jwt_tokens import (
    CLAIMS,
    EVERY,
    NOW,
    PUBLIC,
    SECRET,
    compact,
    encoded,
    key_set,
    private_key,
    public_jwk,
    signature,
    signed,
    with_payload,
)

PAYLOAD = json.dumps(dict(CLAIMS)).encode()
MAX_BYTES = 16 * 1024


def reason(token: str | bytes, algorithm: str = "RS256") -> str:
    """Why the verifier of one algorithm refuses a token; it knows the keys of all of them."""
    verifier = JwtVerifier(algorithms=[algorithm])
    if algorithm == "HS256":
        verifier.replace_secret(SECRET)
    else:
        verifier.replace_keys(key_set(*(public_jwk(name, kid=name) for name in PUBLIC)))
    with pytest.raises(JwtError) as refused:
        verifier.verify(token, NOW)
    return refused.value.reason


def unsigned(header: dict[str, Any], last: str = "") -> str:
    return f"{encoded(json.dumps(header).encode())}.{encoded(PAYLOAD)}.{last}"


@pytest.mark.parametrize("algorithm", EVERY)
@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", "", "HS512", "RS512", "PS256"])
def test_only_a_configured_algorithm_is_accepted(algorithm: str, name: str) -> None:
    assert reason(unsigned({"alg": name, "kid": algorithm}), algorithm) == "algorithm"


@pytest.mark.parametrize("algorithm", EVERY)
def test_a_token_without_a_signature_is_refused(algorithm: str) -> None:
    assert reason(unsigned({"alg": algorithm, "kid": algorithm}), algorithm) == "signature"


@pytest.mark.parametrize("algorithm", PUBLIC)
@pytest.mark.parametrize("encoding", ["pem", "der", "jwk"])
def test_a_public_key_is_no_secret(algorithm: str, encoding: str) -> None:
    public = private_key(algorithm).public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(public_jwk(algorithm)).encode(),
    }[encoding]
    text = f"{encoded(json.dumps({'alg': 'HS256', 'kid': algorithm}).encode())}.{encoded(PAYLOAD)}"
    # By hand: PyJWT would not sign with such a secret.
    forged = f"{text}.{encoded(hmac.digest(secret, text.encode(), hashlib.sha256))}"

    assert reason(forged, algorithm) == "algorithm"
    relabelled = forged.replace(
        encoded(json.dumps({"alg": "HS256", "kid": algorithm}).encode()),
        encoded(json.dumps({"alg": algorithm, "kid": algorithm}).encode()),
    )
    assert reason(relabelled, algorithm) == "signature"


def test_a_key_is_used_with_its_own_algorithm_alone() -> None:
    verifier = JwtVerifier(algorithms=PUBLIC)
    verifier.replace_keys(key_set(*(public_jwk(name, kid=name) for name in PUBLIC)))

    for named in PUBLIC:
        for algorithm in PUBLIC:
            token = signed(algorithm, kid=named)
            if named == algorithm:
                assert verifier.verify(token, NOW)
            else:
                with pytest.raises(JwtError) as refused:
                    verifier.verify(token, NOW)
                assert refused.value.reason == "algorithm"


@pytest.mark.parametrize(
    "kid", ["../../dev/null", "RS256\x00", "rs256", "' or 1=1 --", "", "k" * 9000]
)
def test_a_name_of_a_key_is_compared_and_nothing_else(kid: str) -> None:
    assert reason(signed("RS256", kid=kid)) == "unknown_key"


@pytest.mark.parametrize("algorithm", EVERY)
def test_keys_that_a_token_brings_along_are_ignored(algorithm: str) -> None:
    """The attacker's key signs, and the header offers it in every way there is."""
    other = "RS256" if algorithm == "HS256" else algorithm
    header = {
        "alg": algorithm,
        "kid": algorithm,
        "jwk": public_jwk(other, 1),
        "jku": "https://evil.example/jwks.json",
        "x5u": "https://evil.example/cert.pem",
        "x5c": ["MIIB"],
    }
    key = b"e" * 32 if algorithm == "HS256" else private_key(algorithm, 1)
    forged = compact(json.dumps(header).encode(), PAYLOAD, algorithm, key)

    assert reason(forged, algorithm) == "signature"


@pytest.mark.parametrize(
    "member", [{"crit": ["exp"]}, {"crit": ["b64"], "b64": False}, {"crit": []}, {"crit": None}]
)
def test_an_extension_that_must_be_understood_is_refused(member: dict[str, Any]) -> None:
    header = {"alg": "RS256", "kid": "RS256", **member}

    assert reason(compact(json.dumps(header).encode(), PAYLOAD, "RS256")) == "malformed"


@pytest.mark.parametrize("algorithm", EVERY)
def test_a_signature_holds_for_its_own_header_and_payload_alone(algorithm: str) -> None:
    header, payload, last = signed(algorithm, kid=algorithm).split(".")
    other = signed(algorithm, {**CLAIMS, "sub": "root"}, kid=algorithm).split(".")
    typed = signed(algorithm, kid=algorithm, header={"typ": "at+jwt"}).split(".")
    raw = base64url_decode(last)

    for forged in (
        f"{header}.{other[1]}.{last}",
        f"{header}.{payload}.{other[2]}",
        f"{typed[0]}.{payload}.{last}",
        f"{header}.{payload}.{encoded(raw[:-1])}",
        f"{header}.{payload}.{encoded(raw + bytes(1))}",
        f"{header}.{payload}.{encoded(bytes(len(raw)))}",
    ):
        assert reason(forged, algorithm) == "signature"


def test_an_elliptic_signature_has_no_other_spelling() -> None:
    """DER instead of the two fixed numbers, and zeros, which some libraries have taken (Psychic
    Signatures, CVE-2022-21449)."""
    text = unsigned({"alg": "ES256", "kid": "ES256"}).rstrip(".")
    der = private_key("ES256").sign(text.encode(), ec.ECDSA(SHA256()))

    assert reason(f"{text}.{encoded(der)}", "ES256") == "signature"
    assert reason(f"{text}.{encoded(bytes(64))}", "ES256") == "signature"


@pytest.mark.parametrize("name", ["alg", "kid"])
def test_a_member_of_the_header_stands_once(name: str) -> None:
    for again in (f'"{name}"', f'"\\u{ord(name[0]):04x}{name[1:]}"'):
        header = f'{{"alg":"RS256","kid":"RS256",{again}:"RS256"}}'
        assert reason(compact(header.encode(), PAYLOAD, "RS256")) == "malformed"


@pytest.mark.parametrize(
    "name", ["sub", "exp", "nbf", "iat", "iss", "aud", "tenant", "role", "scope"]
)
def test_a_claim_that_is_used_stands_once(name: str) -> None:
    value = json.dumps(CLAIMS.get(name, NOW))
    for again in (f'"{name}"', f'"\\u{ord(name[0]):04x}{name[1:]}"'):
        pair = f'"{name}":{value},{again}:{value}'
        others = "".join(f',"{it}":{json.dumps(CLAIMS[it])}' for it in CLAIMS if it != name)
        assert reason(with_payload(f"{{{pair}{others}}}"), "HS256") == "malformed"


@pytest.mark.parametrize(
    "payload",
    [
        "", "null", "[]", '"text"', "{", '{"sub":"a"', "{}{}", "{} ", "\ufeff{}", '{"exp":NaN}',
        '{"exp":Infinity}', '{"exp":1e400}', '{"exp":-1e400}', '{"exp":01}', '{"exp":1.}',
        '{"sub":"\\ud800","exp":1}', '{"sub":"a\tb","exp":1}', "{'sub':1}", '{"a":1,}',
        '{"x":' + "[" * 12_000, '{"sub":' + "[" * 10_000 + "]" * 1_000 + "}",
        b'{"sub":"\xff","exp":1}', b'{"sub":"\xc0\xaf"}', b'{"x":"\xed\xa0\x80"}', b"\x00" * 100,
    ],
)  # fmt: skip
def test_a_payload_that_is_no_object_is_malformed_or_has_no_claims(payload: str | bytes) -> None:
    expected = "claim" if payload == "{} " else "malformed"

    assert reason(with_payload(payload), "HS256") == expected


def test_numbers_of_any_size_are_read_and_refused() -> None:
    for number in ("9" * 400, "1" + "0" * 300 + ".5", "-" + "9" * 4000, "1e-400"):
        found = reason(with_payload(f'{{"sub":"a","exp":{number}}}'), "HS256")
        assert found in {"malformed", "claim", "expired"}


def test_deep_nesting_outside_the_claims_that_are_used_is_skipped() -> None:
    deep = "[" * 5_000 + "]" * 5_000
    verifier = JwtVerifier(algorithms=["HS256"])
    verifier.replace_secret(SECRET)

    assert verifier.verify(with_payload(f'{{"x":{deep},"sub":"a","exp":{NOW + 9}}}'), NOW)


@pytest.mark.parametrize(
    "broken",
    [
        "{0}.{1}.{2}=", "{0}=.{1}.{2}", " {0}.{1}.{2}", "{0}.{1}.{2} ",
        "{0}.{1}.{2}\n", "{0}.{1}", "{0}.{1}.{2}.", "{0}.{1}.{2}.{2}", ".{1}.{2}",
        "{0}..{1}.{2}", "{0}.{1}.{2}\x00", "{0}.{1}.{2}é", "{0}.{1}.{2}\ud800",
        "{0}/.{1}.{2}", "Bearer {0}.{1}.{2}", "", ".", "..", "...", "{0}", "\ud800", "%2e", "é",
    ],
)  # fmt: skip
def test_a_token_has_one_spelling(broken: str) -> None:
    token = broken.format(*signed("RS256", kid="RS256").split("."))

    assert reason(token) == "malformed"


@pytest.mark.parametrize("other", ["{}=", "{}==", " {}", "{}\n", "{}+", "{}/", "{}A", "{}AAA%"])
def test_a_payload_has_one_spelling_even_if_it_is_signed(other: str) -> None:
    header, payload, last = signed("RS256", kid="RS256").split(".")
    text = f"{header}.{other.format(payload)}"

    assert reason(f"{text}.{encoded(signature('RS256', text.encode()))}") == "malformed"
    assert reason(f"{text}.{last}") == "signature"


def test_bits_beyond_the_last_byte_are_zero() -> None:
    header, payload, last = signed("RS256", kid="RS256").split(".")
    assert len(last) % 4 == 2
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = alphabet[alphabet.index(last[-1]) ^ 1]

    assert reason(f"{header}.{payload}.{last[:-1]}{other}") == "malformed"


def test_bytes_that_are_no_text_are_malformed() -> None:
    token = signed("RS256", kid="RS256").encode()

    for broken in (b"\xff" + token, token[:50] + b"\x80" + token[50:], b"\xc3.\x28.\xa0"):
        assert reason(broken) == "malformed"


def test_nothing_is_done_with_a_token_that_is_too_long() -> None:
    claims = {**CLAIMS, "x": "y" * 11_000}
    token = signed("HS256", claims, kid=None)
    fill = (MAX_BYTES - len(token)) * 3 // 4
    longest = signed("HS256", {**claims, "x": "y" * (11_000 + fill)}, kid=None)
    verifier = JwtVerifier(algorithms=["HS256"])
    verifier.replace_secret(SECRET)

    assert MAX_BYTES - 4 <= len(longest) <= MAX_BYTES
    assert verifier.verify(longest, NOW)
    assert reason(longest + "A" * 5, "HS256") == "malformed"
    assert reason("A" * 50_000_000, "HS256") == "malformed"


def test_no_claim_counts_before_the_signature_holds() -> None:
    """A forged token learns nothing of which claims would have been wanted."""
    for payload in (b"not JSON", b'{"exp":1}', b"\xff", PAYLOAD):
        header = json.dumps({"alg": "RS256", "kid": "RS256"}).encode()
        assert reason(compact(header, payload, "RS256", private_key("RS256", 1))) == "signature"


def test_what_is_raised_tells_nothing_of_the_token() -> None:
    verifier = JwtVerifier(algorithms=["RS256"])
    token = signed("RS256", kid="marked")

    with pytest.raises(JwtError) as refused:
        verifier.verify(token, NOW)

    assert "marked" not in str(refused.value)
    assert isinstance(refused.value, ValueError)


def test_a_signature_over_other_bytes_of_the_same_text_is_refused() -> None:
    header, payload, _ = signed("RS256", kid="RS256").split(".")
    upper = f"{header}.{payload}".swapcase().encode()

    assert reason(f"{header}.{payload}.{encoded(signature('RS256', upper))}") == "signature"
