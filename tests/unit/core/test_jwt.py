"""Tokens that hold, and what of them is believed when."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream._core import JwtError, JwtVerifier
from tests.reference.jwt_tokens import (
    CLAIMS,
    EVERY,
    NOW,
    PUBLIC,
    SECRET,
    key_set,
    public_jwk,
    signed,
    with_payload,
)


def verifier(algorithm: str = "HS256", **options: Any) -> JwtVerifier:
    made = JwtVerifier(algorithms=[algorithm], **options)
    if algorithm == "HS256":
        made.replace_secret(SECRET)
    else:
        assert made.replace_keys(key_set(public_jwk(algorithm))) == []
    return made


def reason(token: str | bytes, now: int = NOW, **options: Any) -> str:
    with pytest.raises(JwtError) as refused:
        verifier(**options).verify(token, now)
    return refused.value.reason


def claims(**changed: Any) -> dict[str, Any]:
    """The usual claims with others; None takes one out."""
    merged = {**CLAIMS, **changed}
    return {name: value for name, value in merged.items() if value is not None}


@pytest.mark.parametrize("algorithm", EVERY)
def test_a_token_that_another_library_has_signed_holds(algorithm: str) -> None:
    found = verifier(algorithm).verify(signed(algorithm), NOW)

    assert found.subject == "user-1"
    assert found.tenant == "acme"
    assert found.role == "mobile"
    assert found.scopes == ("chat:create", "streams:read")
    assert found.expires_at == NOW + 60


def test_a_token_may_be_text_or_bytes_and_nothing_else() -> None:
    token = signed("HS256")

    assert verifier().verify(token.encode(), NOW).subject == verifier().verify(token, NOW).subject
    with pytest.raises(TypeError):
        verifier().verify(None, NOW)  # type: ignore[arg-type]


def test_the_other_claims_are_neither_needed_nor_looked_at() -> None:
    token = signed("HS256", {"sub": "a", "exp": NOW + 1, "deep": {"tenant": "x", "l": [[{}]]}})

    found = verifier().verify(token, NOW)

    assert (found.tenant, found.role, found.scopes) == (None, None, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a:b", ("a:b",)),
        (" a:b  c:* ", ("a:b", "c:*")),
        ("", ()),
        ([], ()),
        (["a:b", "c:d"], ("a:b", "c:d")),
    ],
)
def test_scopes_are_a_text_or_a_list(value: object, expected: tuple[str, ...]) -> None:
    assert verifier().verify(signed("HS256", claims(scope=value)), NOW).scopes == expected


@pytest.mark.parametrize("value", [7, True, {}, {"a": 1}, [1], ["a b"], [""], ["a", None], "a\nb"])
def test_scopes_of_another_kind_are_refused_not_taken_for_none(value: object) -> None:
    assert reason(signed("HS256", claims(scope=value))) == "claim"


def test_null_is_no_missing_claim() -> None:
    for name in ("scope", "tenant", "role", "nbf", "iat"):
        payload = json.dumps({**CLAIMS, name: None})
        assert reason(with_payload(payload)) == "claim"


@pytest.mark.parametrize("name", ["tenant", "role", "sub"])
@pytest.mark.parametrize("value", ["", "a\nb", "a\x85", 7, ["a"], {"a": "b"}, False])
def test_names_are_texts_without_control_characters(name: str, value: object) -> None:
    token = with_payload(json.dumps({**CLAIMS, name: value}))

    assert reason(token) == "claim"


@pytest.mark.parametrize("name", ["sub", "exp"])
def test_a_token_has_a_holder_and_an_end(name: str) -> None:
    assert reason(signed("HS256", claims(**{name: None}))) == "claim"


def test_names_of_claims_may_lie_deeper_or_be_a_url() -> None:
    names = ("https://acme.example/tenant", "access.mill.role", "access.scopes")
    given = {
        "access": {"mill": {"role": "bot"}, "scopes": ["a:b"]},
        "https://acme.example/tenant": "t1",
    }
    token = signed("HS256", {"sub": "s", "exp": NOW + 1, **given})

    found = verifier(claims=names).verify(token, NOW)

    assert (found.tenant, found.role, found.scopes) == ("t1", "bot", ("a:b",))


def test_one_claim_may_be_read_as_two_things() -> None:
    names = ("sub", "role", "scope")

    assert verifier(claims=names).verify(signed("HS256"), NOW).tenant == "user-1"


@pytest.mark.parametrize(
    ("changed", "now", "outcome"),
    [
        ({"exp": NOW}, NOW + 29, None),
        ({"exp": NOW}, NOW + 30, "expired"),
        ({"exp": NOW + 0.5}, NOW + 30, None),
        ({"exp": NOW + 0.5}, NOW + 31, "expired"),
        ({"nbf": NOW}, NOW - 30, None),
        ({"nbf": NOW}, NOW - 31, "not_yet_valid"),
        ({"nbf": NOW + 0.5}, NOW - 30, "not_yet_valid"),
        ({"iat": NOW}, NOW - 30, None),
        ({"iat": NOW}, NOW - 31, "not_yet_valid"),
        ({"exp": NOW, "nbf": NOW + 100}, NOW + 50, "expired"),
        ({"exp": 0}, NOW, "expired"),
    ],
)
def test_times_hold_within_the_leeway(
    changed: dict[str, float], now: int, outcome: str | None
) -> None:
    token = signed("HS256", claims(**changed))

    if outcome is None:
        assert verifier().verify(token, now).expires_at == {**CLAIMS, **changed}["exp"]
    else:
        assert reason(token, now) == outcome


def test_without_leeway_a_token_ends_with_its_last_second() -> None:
    token = signed("HS256", claims(exp=NOW))

    assert verifier(leeway_seconds=0).verify(token, NOW - 1)
    assert reason(token, NOW, leeway_seconds=0) == "expired"


@pytest.mark.parametrize(
    "text",
    ['"1800000060"', "true", "-1", "1e30", "1800000060000", "253402300799.5", "{}", "[1800000060]"],
)
def test_a_date_is_a_number_of_seconds_before_the_year_10000(text: str) -> None:
    assert reason(with_payload(f'{{"sub":"a","exp":{text}}}')) == "claim"


@pytest.mark.parametrize(
    "text", ["1.80000006e9", "1800000060.25", "18000000600e-1", "253402300799"]
)
def test_a_date_may_be_written_as_any_number(text: str) -> None:
    found = verifier().verify(with_payload(f'{{"sub":"a","exp":{text}}}'), NOW)

    assert found.expires_at == float(text)


def test_the_issuer_is_looked_at_if_one_is_configured() -> None:
    token = signed("HS256")

    assert verifier(issuer="https://id.example").verify(token, NOW)
    assert reason(token, issuer="https://id.example/") == "issuer"
    assert reason(signed("HS256", claims(iss=None)), issuer="https://id.example") == "issuer"
    assert reason(with_payload(json.dumps({**CLAIMS, "iss": ["x"]})), issuer="x") == "issuer"
    assert verifier().verify(with_payload(json.dumps({**CLAIMS, "iss": 7})), NOW)


@pytest.mark.parametrize("value", ["millstream", ["millstream"], ["x", "millstream"]])
def test_the_audience_is_among_those_of_the_token(value: object) -> None:
    assert verifier(audience="millstream").verify(signed("HS256", claims(aud=value)), NOW)


@pytest.mark.parametrize("value", [None, "other", [], ["other"], "millstream ", ["millstream", 7]])
def test_another_audience_is_refused(value: object) -> None:
    assert reason(signed("HS256", claims(aud=value)), audience="millstream") == "audience"


def test_several_algorithms_may_be_used_side_by_side() -> None:
    both = JwtVerifier(algorithms=PUBLIC)
    both.replace_keys(key_set(*(public_jwk(name, kid=name) for name in PUBLIC)))

    assert both.key_count == 3
    for name in PUBLIC:
        assert both.verify(signed(name, kid=name), NOW)
        assert both.verify(signed(name, kid=None), NOW)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithms": []}, "at least one"),
        ({"algorithms": ["none"]}, "unknown algorithm"),
        ({"algorithms": ["RS384"]}, "unknown algorithm"),
        ({"algorithms": ["RS256", "HS256"]}, "mixed"),
        ({"algorithms": ["RS256"], "claims": ("a", "a.b", "c")}, "inside another"),
        ({"algorithms": ["RS256"], "claims": ("exp.x", "b", "c")}, "inside another"),
        ({"algorithms": ["RS256"], "claims": ("", "b", "c")}, "no name"),
        ({"algorithms": ["RS256"], "claims": ("a..b", "b", "c")}, "no name"),
    ],
)
def test_options_that_cannot_work_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JwtVerifier(**options)
