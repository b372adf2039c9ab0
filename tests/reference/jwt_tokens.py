"""Tokens and keys made by PyJWT and cryptography, which share no code with ours."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import algorithms

NOW = 1_800_000_000
SECRET = b"0123456789abcdef0123456789abcdef"
PUBLIC = ("RS256", "ES256", "EdDSA")
EVERY = (*PUBLIC, "HS256")
CLAIMS: Mapping[str, Any] = {
    "sub": "user-1",
    "exp": NOW + 60,
    "iss": "https://id.example",
    "aud": "millstream",
    "tenant": "acme",
    "role": "mobile",
    "scope": "chat:create streams:read",
}


def private_key(algorithm: str, number: int = 0) -> Any:
    """The key of this number for an algorithm, the same one each time."""
    return _generated(algorithm, number)


@functools.cache
def _generated(algorithm: str, number: int) -> Any:
    if algorithm == "RS256":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return SECRET


def public_jwk(algorithm: str, number: int = 0, **members: Any) -> dict[str, Any]:
    """The public key as a JSON Web Key of the name ``k<number>``; None takes a member out."""
    kinds: dict[str, Any] = {
        "RS256": algorithms.RSAAlgorithm,
        "ES256": algorithms.ECAlgorithm,
        "EdDSA": algorithms.OKPAlgorithm,
    }
    jwk = kinds[algorithm].to_jwk(private_key(algorithm, number).public_key(), as_dict=True)
    merged = {"kid": f"k{number}", **jwk, **members}
    return {name: value for name, value in merged.items() if value is not None}


def key_set(*jwks: dict[str, Any]) -> bytes:
    """A JSON Web Key Set."""
    return json.dumps({"keys": jwks}).encode()


def signed(
    algorithm: str = "RS256",
    claims: Mapping[str, Any] = CLAIMS,
    *,
    number: int = 0,
    kid: str | None = "k0",
    header: Mapping[str, Any] | None = None,
) -> str:
    """A token as PyJWT makes it."""
    headers = {**({} if kid is None else {"kid": kid}), **(header or {})}
    key = private_key(algorithm, number)
    return jwt.encode(dict(claims), key, algorithm=algorithm, headers=headers)


def encoded(content: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def signature(algorithm: str, text: bytes, key: Any = None) -> bytes:
    """A signature over any text, under any key that the algorithm can be made to take."""
    signer = jwt.PyJWS().get_algorithm_by_name(algorithm)
    return signer.sign(text, private_key(algorithm) if key is None else key)


def compact(header: bytes, payload: bytes, algorithm: str = "HS256", key: Any = None) -> str:
    """A token of any two texts with a signature that holds."""
    text = f"{encoded(header)}.{encoded(payload)}"
    return f"{text}.{encoded(signature(algorithm, text.encode(), key))}"


def with_payload(payload: str | bytes, algorithm: str = "HS256") -> str:
    """A token of these claims, however they are written, with a signature that holds."""
    header = json.dumps({"alg": algorithm, "kid": "k0"}).encode()
    content = payload.encode() if isinstance(payload, str) else payload
    return compact(header, content, algorithm)
