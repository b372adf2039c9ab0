"""The text of an API key, and what is kept of it."""

from __future__ import annotations

import hmac
from itertools import cycle
from types import SimpleNamespace

import msgspec
import pytest

from millstream.identity import api_keys
from millstream.identity.api_keys import (
    ApiKey,
    holds,
    looks_like_key,
    new_key,
    prefix_named,
    prefix_of,
)


def made() -> tuple[str, ApiKey]:
    return new_key((), tenant="acme", now=1)


def test_a_key_has_a_part_that_may_be_shown_and_256_bits_that_may_not() -> None:
    text, kept = made()
    mark, shown, secret = text.split("_", 2)
    assert (mark, len(shown), len(secret)) == ("ms", 8, 43)
    assert kept.prefix == prefix_of(text) == f"ms_{shown}"
    assert looks_like_key(text)


def test_two_keys_share_nothing() -> None:
    (first, one), (second, other) = made(), made()
    assert first[12:] != second[12:]
    assert one.prefix != other.prefix
    assert one.sha256 != other.sha256


def test_what_is_kept_does_not_hold_the_secret() -> None:
    text, kept = made()
    assert text[12:] not in msgspec.json.encode(kept).decode()


def test_a_prefix_that_is_taken_is_not_given_again() -> None:
    letters = cycle("aaaaaaaabbbbbbbb")
    taken = {"ms_aaaaaaaa"}
    _, kept = new_key(taken, tenant="t", now=1, choose=lambda _: next(letters))
    assert kept.prefix == "ms_bbbbbbbb"


def test_a_key_holds_for_its_own_record_alone() -> None:
    (text, kept), (other, _) = made(), made()
    assert holds(text, kept)
    assert not holds(other, kept)
    assert not holds(text[:-1] + ("A" if text[-1] != "A" else "B"), kept)
    assert not holds(text, None)


def test_an_unknown_prefix_costs_the_same_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(api_keys, "hmac", SimpleNamespace(compare_digest=compare))
    text, kept = made()
    holds(text, kept)
    holds(text, None)
    assert compared == [(32, 32), (32, 32)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ms_",
        "ms_abcdefgh",
        "ms_abcdefgh_",
        "ms_abcdefgh_" + "x" * 42,
        "ms_abcdefgh_" + "x" * 44,
        "ms_ABCDEFGH_" + "x" * 43,
        "ms_abcdefg_" + "x" * 44,
        "MS_abcdefgh_" + "x" * 43,
        "ms_abcdefgh_" + "x" * 42 + "é",
        "ms_abcdefgh_" + "x" * 43 + "\n",
        " ms_abcdefgh_" + "x" * 43,
    ],
)
def test_what_no_key_looks_like_has_no_prefix(text: str) -> None:
    assert prefix_of(text) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("ms_abcdefgh", "ms_abcdefgh"),
        ("abcdefgh", "ms_abcdefgh"),
        ("ms_abcdefgh_" + "x" * 43, "ms_abcdefgh"),
        ("ms_abcdefg", None),
        ("ms_ms_abcdefgh", None),
        ("", None),
    ],
)
def test_people_may_name_a_key_with_and_without_its_mark(text: str, meant: str | None) -> None:
    assert prefix_named(text) == meant


def test_a_key_holds_until_the_second_in_which_it_expires() -> None:
    _, kept = new_key((), tenant="t", now=1, expires_at=100)
    assert kept.refusal(99.999) is None
    assert kept.refusal(100.0) == "expired"


def test_a_revoked_key_never_holds_again() -> None:
    _, kept = made()
    assert msgspec.structs.replace(kept, revoked_at=50).refusal(0) == "revoked"
