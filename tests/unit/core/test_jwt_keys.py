"""Key sets: which keys of one are used, and for which tokens."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from millstream._core import JwtError, JwtVerifier
from tests.reference.jwt_tokens import (
    CLAIMS,
    NOW,
    PUBLIC,
    SECRET,
    encoded,
    key_set,
    private_key,
    public_jwk,
    signed,
)


def verifier(*jwks: dict[str, Any], algorithms: tuple[str, ...] = PUBLIC) -> JwtVerifier:
    made = JwtVerifier(algorithms=algorithms)
    made.replace_keys(key_set(*jwks))
    return made


def reason(made: JwtVerifier, token: str) -> str | None:
    """Why a token is refused; None if it is not."""
    try:
        made.verify(token, NOW)
    except JwtError as refused:
        return refused.reason
    return None


def test_without_keys_no_token_holds() -> None:
    empty = JwtVerifier(algorithms=["RS256"])

    assert empty.key_count == 0
    assert reason(empty, signed("RS256")) == "unknown_key"
    secretless = JwtVerifier(algorithms=["HS256"])
    assert reason(secretless, signed("HS256")) == "unknown_key"


def test_a_name_chooses_the_key() -> None:
    two = verifier(public_jwk("RS256", 0), public_jwk("RS256", 1))

    assert reason(two, signed(number=0, kid="k0")) is None
    assert reason(two, signed(number=1, kid="k1")) is None
    assert reason(two, signed(number=1, kid="k0")) == "signature"
    assert reason(two, signed(number=0, kid="k2")) == "unknown_key"


def test_without_a_name_there_must_be_nothing_to_choose() -> None:
    one = verifier(public_jwk("RS256", 0), public_jwk("ES256", 0))
    two = verifier(public_jwk("RS256", 0), public_jwk("RS256", 1))

    assert reason(one, signed("RS256", kid=None)) is None
    assert reason(one, signed("ES256", kid=None)) is None
    assert reason(one, signed("EdDSA", kid=None)) == "unknown_key"
    assert reason(two, signed("RS256", kid=None)) == "unknown_key"


def test_a_key_without_a_name_is_not_that_of_a_token_with_one() -> None:
    nameless = verifier(public_jwk("RS256", kid=None))

    assert reason(nameless, signed("RS256", kid=None)) is None
    assert reason(nameless, signed("RS256", kid="k0")) == "unknown_key"


def test_keys_of_one_name_are_alternatives() -> None:
    both = verifier(public_jwk("RS256", 0, kid="k"), public_jwk("RS256", 1, kid="k"))

    assert reason(both, signed(number=0, kid="k")) is None
    assert reason(both, signed(number=1, kid="k")) is None
    assert reason(both, signed(number=2, kid="k")) == "signature"


def test_the_secret_holds_for_any_name() -> None:
    made = JwtVerifier(algorithms=["HS256"])
    made.replace_secret(SECRET)

    assert reason(made, signed("HS256", kid="whatever")) is None
    assert reason(made, signed("HS256", kid=None)) is None


def test_new_keys_replace_the_old_ones() -> None:
    made = verifier(public_jwk("RS256", 0))
    made.replace_keys(key_set(public_jwk("RS256", 1)))

    assert reason(made, signed(number=0, kid="k0")) == "unknown_key"
    assert reason(made, signed(number=1, kid="k1")) is None
    made.replace_keys(key_set())
    assert made.key_count == 0


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"use": "enc"}, "not for checking signatures"),
        ({"key_ops": ["encrypt"]}, "not for checking signatures"),
        ({"key_ops": []}, "not for checking signatures"),
        ({"use": "sig", "key_ops": ["sign"]}, "not for checking signatures"),
        ({"alg": "RS512"}, "algorithm is not configured"),
        ({"alg": "RSA-OAEP"}, "algorithm is not configured"),
        ({"alg": "none"}, "algorithm is not configured"),
        ({"kty": "rsa"}, "type is not supported"),
        ({"kty": "oct", "k": encoded(SECRET)}, "type is not supported"),
        ({"kty": "EC"}, "type is not supported"),
        ({"kty": None}, "missing field"),
        ({"kid": 7}, "invalid type"),
        ({"n": None}, "member \"n\""),
        ({"n": "AQ=="}, "member \"n\""),
        ({"n": encoded(b"\x01" * 255)}, "2033 bits"),
        ({"n": encoded(b"\x00" * 64 + b"\xff" * 128)}, "1024 bits"),
        ({"n": encoded(b"\xff" * 1025)}, "8200 bits"),
        ({"n": ""}, "0 bits"),
        ({"e": "AQ"}, "member \"e\""),
        ({"e": "AA"}, "member \"e\""),
        ({"e": ""}, "member \"e\""),
        ({"e": encoded(b"\x01\x00\x00")}, "member \"e\""),
        ({"e": encoded(b"\x01\x00\x00\x00\x01")}, "member \"e\""),
    ],
)  # fmt: skip
def test_a_key_that_does_not_fit_is_left_out(changed: dict[str, Any], why: str) -> None:
    made = JwtVerifier(algorithms=["RS256"])

    left_out = made.replace_keys(key_set(public_jwk("RS256", **changed), public_jwk("RS256", 1)))

    assert made.key_count == 1
    assert len(left_out) == 1
    assert left_out[0].startswith("key 0: ")
    assert why in left_out[0]
    assert reason(made, signed(number=0, kid="k0")) == "unknown_key"


@pytest.mark.parametrize("of_key", [None, "EdDSA", "Ed25519"])
@pytest.mark.parametrize("of_token", ["EdDSA", "Ed25519"])
def test_ed25519_goes_by_its_newer_name_too(of_key: str | None, of_token: str) -> None:
    """RFC 9864."""
    made = verifier(public_jwk("EdDSA", alg=of_key))
    head = json.dumps({"alg": of_token, "kid": "k0"}).encode()
    text = f"{encoded(head)}.{encoded(json.dumps(CLAIMS).encode())}"
    token = f"{text}.{encoded(private_key('EdDSA').sign(text.encode()))}"

    assert made.verify(token, NOW).subject == CLAIMS["sub"]


@pytest.mark.parametrize(
    ("algorithm", "changed", "why"),
    [
        ("ES256", {"crv": "P-384"}, "type"),
        ("ES256", {"crv": "secp256k1"}, "type"),
        ("ES256", {"crv": None}, "type"),
        ("ES256", {"x": encoded(b"\x01" * 31)}, '"x"'),
        ("ES256", {"y": None}, '"y"'),
        ("ES256", {"y": encoded(b"\x01" * 33)}, '"y"'),
        ("ES256", {"alg": "RS256"}, "algorithm"),
        ("EdDSA", {"crv": "X25519"}, "type"),
        ("EdDSA", {"crv": "Ed448"}, "type"),
        ("EdDSA", {"x": ""}, '"x"'),
        ("EdDSA", {"x": encoded(b"\x01" * 31)}, '"x"'),
        ("EdDSA", {"x": encoded(b"\x01" * 64)}, '"x"'),
    ],
)
def test_a_point_has_its_curve_and_length(
    algorithm: str, changed: dict[str, Any], why: str
) -> None:
    made = JwtVerifier(algorithms=[algorithm])

    (line,) = made.replace_keys(key_set(public_jwk(algorithm, **changed)))

    assert why in line
    assert made.key_count == 0


def test_a_point_off_the_curve_checks_nothing() -> None:
    off = verifier(public_jwk("ES256", x=encoded(b"\x01" * 32), y=encoded(b"\x02" * 32)))
    identity = verifier(public_jwk("EdDSA", x=encoded(b"\x01" + bytes(31))))

    assert reason(off, signed("ES256")) == "signature"
    assert reason(identity, signed("EdDSA")) == "signature"


def test_what_a_key_allows_is_more_than_it_must() -> None:
    used = public_jwk("RS256", use="sig", key_ops=["sign", "verify"], alg="RS256", x5c=["MII"])

    assert reason(verifier(used), signed()) is None


def test_a_weak_key_of_another_library_is_left_out() -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    other = ec.generate_private_key(ec.SECP384R1()).public_key()
    made = JwtVerifier(algorithms=PUBLIC)

    left_out = made.replace_keys(
        key_set(RSAAlgorithm.to_jwk(weak, as_dict=True), ECAlgorithm.to_jwk(other, as_dict=True))
    )

    assert [line[:6] for line in left_out] == ["key 0:", "key 1:"]


def test_the_private_half_of_a_key_changes_nothing() -> None:
    whole = {"kid": "k0", **RSAAlgorithm.to_jwk(private_key("RS256"), as_dict=True)}

    del whole["key_ops"]  # PyJWT says "sign" of a private key
    assert reason(verifier(whole), signed()) is None


def test_keys_of_an_algorithm_that_is_not_configured_are_left_out() -> None:
    made = verifier(public_jwk("ES256"), public_jwk("RS256"), algorithms=("ES256",))

    assert made.key_count == 1
    assert reason(made, signed("RS256")) == "algorithm"


def test_a_key_with_a_member_twice_is_left_out() -> None:
    text = json.dumps(public_jwk("RS256"))[:-1] + ',"kty":"RSA"}'
    made = JwtVerifier(algorithms=["RS256"])

    (line,) = made.replace_keys(f'{{"keys":[{text}]}}'.encode())

    assert "duplicate field" in line


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"{}", b"null", b'{"keys":{}}', b'{"keys":null}', b'{"keys":[}', b"\xff",
        b"<html>", b'{"keys":[],"keys":[]}', b'{"keys":[]} x', b"[" * 100_000,
        b'{"keys":' + b"[" * 100_000, b" " * (1 << 20) + b'{"keys":[]}',
        b'{"keys":[' + b",".join([b"{}"] * 257) + b"]}",
    ],
    ids=lambda text: repr(text[:20]),
)  # fmt: skip
def test_what_is_no_key_set_leaves_the_keys_as_they_are(text: bytes) -> None:
    made = verifier(public_jwk("RS256"))

    with pytest.raises(ValueError, match=r"[kK]ey [sS]et"):
        made.replace_keys(text)

    assert reason(made, signed()) is None


def test_what_is_in_a_list_of_keys_and_no_key_is_left_out() -> None:
    made = JwtVerifier(algorithms=["RS256"])
    odd = [b"null", b"7", b"[]", b'"RSA"', b"{}", b"[" * 300 + b"]" * 300]

    assert len(made.replace_keys(b'{"keys":[' + b",".join(odd) + b"]}")) == len(odd)


@pytest.mark.parametrize("length", [0, 1, 31])
def test_a_secret_has_the_length_of_its_hash(length: int) -> None:
    made = JwtVerifier(algorithms=["HS256"])
    made.replace_secret(SECRET)

    with pytest.raises(ValueError, match="at least 32 bytes"):
        made.replace_secret(b"x" * length)

    assert reason(made, signed("HS256")) is None


def test_public_keys_and_secrets_do_not_meet() -> None:
    symmetric, public = JwtVerifier(algorithms=["HS256"]), JwtVerifier(algorithms=["RS256"])

    with pytest.raises(ValueError, match="fit none"):
        symmetric.replace_keys(key_set(public_jwk("RS256")))
    with pytest.raises(ValueError, match="fit none"):
        public.replace_secret(SECRET)


def test_keys_may_be_replaced_while_tokens_are_checked() -> None:
    made = verifier(public_jwk("RS256", 0))
    sets = [key_set(public_jwk("RS256", 0)), key_set(*(public_jwk("RS256", n) for n in (0, 1)))]
    token = signed()
    found: list[str | None] = []

    def check() -> None:
        found.extend(reason(made, token) for _ in range(300))

    threads = [threading.Thread(target=check) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for text in sets:
            made.replace_keys(text)

    assert found == [None] * 900
