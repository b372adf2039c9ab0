"""The Rust verifier against its twin over PyJWT: the same claims, or the same reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millstream import _core
from tests.reference import jwt as twin
from tests.reference.jwt_tokens import (
    NOW,
    PUBLIC,
    SECRET,
    compact,
    encoded,
    key_set,
    private_key,
    public_jwk,
    signed,
    with_payload,
)

NAMES = ("org.tenant", "org.role.name", "https://a.b/scope")
USED = ["exp", "nbf", "iat", "sub", "iss", "aud", "org", "tenant", "role", "name", NAMES[2]]
OPTIONS: dict[str, Any] = {
    "issuer": "i", "audience": "a", "leeway_seconds": 5, "claims": NAMES,
}  # fmt: skip

OURS = _core.JwtVerifier(algorithms=["HS256"], **OPTIONS)
OURS.replace_secret(SECRET)
TWIN = twin.Verifier(algorithms=("HS256",), **OPTIONS)
TWIN.replace_secret(SECRET)

Outcome = str | tuple[object, ...]


def ours(verifier: _core.JwtVerifier, token: str | bytes) -> Outcome:
    try:
        found = verifier.verify(token, NOW)
    except _core.JwtError as refused:
        return refused.reason
    return found.subject, found.tenant, found.role, found.scopes, found.expires_at


def theirs(verifier: twin.Verifier, token: str | bytes) -> Outcome:
    try:
        found = verifier.verify(token, NOW)
    except twin.Refused as refused:
        return str(refused)
    return found.subject, found.tenant, found.role, found.scopes, found.expires_at


TEXTS = st.sampled_from(["", "a", "i", "a b", " a", "a:b c:*", "\x85", "é🦀", "\n"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=6
)
DATES = st.sampled_from(
    [0, -1, NOW - 6, NOW - 5, NOW - 4.5, NOW, NOW + 5, NOW + 5.5, NOW + 60, 253402300799, 10**15]
) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | st.integers() | DATES | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
SCOPES = TEXTS | st.lists(TEXTS, max_size=3)
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "exp": st.just(NOW + 60),
    "sub": st.just("someone"),
    "iss": st.just("i"),
    "aud": st.sampled_from(["a", ["b", "a"]]),
}
MAYBE: dict[str, st.SearchStrategy[Any]] = {
    "nbf": DATES,
    "iat": st.sampled_from([NOW, NOW - 1000]),
    NAMES[2]: SCOPES,
    "org": st.fixed_dictionaries(
        {}, optional={"tenant": TEXTS, "role": st.fixed_dictionaries({}, optional={"name": TEXTS})}
    ),
    "more": VALUES,
}


@st.composite
def payloads(draw: st.DrawFn) -> str:
    """Claims that are mostly right, some of them changed, taken out or written twice."""
    claims = draw(st.fixed_dictionaries(RIGHT, optional=MAYBE))
    pairs = list(claims.items())
    for name in draw(st.lists(st.sampled_from(USED), max_size=2)):
        value = draw(DATES | VALUES)
        if not draw(st.integers(0, 3)):
            pairs.append((name, value))
        else:
            pairs = [pair for pair in pairs if pair[0] != name]
            pairs += [(name, value)] * draw(st.integers(0, 1))
    escape = draw(st.booleans())
    texts = [f"{json.dumps(n, ensure_ascii=escape)}:{json.dumps(v)}" for n, v in pairs]
    return "{" + draw(st.sampled_from([",", " , "])).join(draw(st.permutations(texts))) + "}"


@settings(max_examples=600, deadline=None)
@given(payload=payloads())
@example(payload='{"org":null,"exp":1800000060,"sub":"s","iss":"i","aud":"a"}')
@example(payload='{"org":{"role":"x"},"exp":1800000060,"sub":"s","iss":"i","aud":"a"}')
@example(payload='{"org":{},"org":{},"exp":1800000060,"sub":"s","iss":"i","aud":"a"}')
@example(payload='{"org":{"x":1,"x":2},"exp":1800000060,"sub":"s","iss":"i","aud":["a"]}')
def test_claims_are_read_as_the_twin_reads_them(payload: str) -> None:
    token = with_payload(payload)

    assert ours(OURS, token) == theirs(TWIN, token)


KINDS = st.sampled_from(PUBLIC)
KIDS = st.sampled_from([None, "k0", "k1", "x"])
MEMBERS = st.fixed_dictionaries(
    {"kid": KIDS},
    optional={
        "use": st.sampled_from(["sig", "enc"]),
        "alg": st.sampled_from([*PUBLIC, "RS512"]),
        "key_ops": st.sampled_from([["verify"], ["sign", "verify"], ["encrypt"]]),
    },
)
JWKS = st.builds(
    lambda kind, number, members: public_jwk(kind, number, **members),
    KINDS, st.integers(0, 1), MEMBERS,
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(
    jwks=st.lists(JWKS, max_size=4),
    algorithms=st.lists(KINDS, min_size=1, max_size=3, unique=True),
    kind=KINDS,
    number=st.integers(0, 1),
    kid=KIDS,
)
def test_a_key_is_chosen_as_the_twin_chooses_it(
    jwks: list[dict[str, Any]], algorithms: list[str], kind: str, number: int, kid: str | None
) -> None:
    rust = _core.JwtVerifier(algorithms=algorithms)
    plain = twin.Verifier(algorithms=tuple(algorithms))
    rust.replace_keys(key_set(*jwks))
    plain.replace_keys(key_set(*jwks))
    token = signed(kind, number=number, kid=kid)

    assert rust.key_count == len(plain.keys)
    assert ours(rust, token) == theirs(plain, token)


HEADERS = st.fixed_dictionaries(
    {"alg": st.sampled_from(["HS256", "hs256", "none", "RS256", 7, None])},
    optional={"kid": KIDS | st.integers(), "crit": VALUES, "typ": VALUES, "jwk": VALUES},
)


@settings(max_examples=250, deadline=None)
@given(header=HEADERS)
def test_a_header_is_read_as_the_twin_reads_it(header: dict[str, Any]) -> None:
    token = compact(json.dumps(header).encode(), b'{"sub":"s","exp":1800000060}')

    assert ours(OURS, token) == theirs(TWIN, token)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_changed_token_is_refused_for_the_same_reason(data: st.DataObject) -> None:
    token = bytearray(with_payload('{"sub":"s","exp":1800000060,"iss":"i","aud":"a"}').encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(token) - 1))
        if data.draw(st.booleans()):
            token[at] = data.draw(st.sampled_from(b"AZaz09-_.=+/ \n\x00\xff"))
        else:
            del token[at : at + data.draw(st.integers(0, 60))]
        token = token or bytearray(b".")

    assert ours(OURS, bytes(token)) == theirs(TWIN, bytes(token))


@settings(max_examples=400, deadline=None)
@given(token=st.binary(max_size=200) | st.text(max_size=200))
def test_anything_else_is_malformed_and_breaks_nothing(token: str | bytes) -> None:
    assert ours(OURS, token) in {"malformed", "algorithm"}


@settings(max_examples=400, deadline=None)
@given(header=st.binary(max_size=60), payload=st.binary(max_size=200))
def test_any_bytes_may_be_signed(header: bytes, payload: bytes) -> None:
    assert ours(OURS, compact(header, payload)) == "malformed"
    framed = compact(b'{"alg":"HS256"}', payload)
    assert ours(OURS, framed) == theirs(TWIN, framed)


@settings(max_examples=150, deadline=None)
@given(text=st.binary(max_size=200), members=st.dictionaries(st.sampled_from(
    ["kty", "kid", "use", "key_ops", "alg", "n", "e", "x", "y", "crv"]), VALUES
))  # fmt: skip
def test_any_key_set_is_read_or_refused(text: bytes, members: dict[str, Any]) -> None:
    verifier = _core.JwtVerifier(algorithms=PUBLIC)
    for kind in PUBLIC:
        verifier.replace_keys(key_set({**public_jwk(kind), **members}))
    with pytest.raises(ValueError, match="no JSON Web Key Set"):
        verifier.replace_keys(text)
    token = f"{encoded(b'{}')}.{encoded(text)}.{encoded(private_key('EdDSA').sign(text))}"
    assert ours(verifier, token) == "malformed"
