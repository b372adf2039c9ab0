"""Which limits hold for whom."""

from __future__ import annotations

import pytest

from millstream.admission import LimitBook, Limits
from millstream.errors import ConfigError

SOME = Limits(concurrency=5)


def names(book: LimitBook, tenant: str, model: str) -> list[str]:
    return [scoped.scope for scoped in book.scopes(tenant, model)]


def test_scopes_are_those_that_limit_something_widest_first() -> None:
    book = LimitBook(
        SOME,
        tenants={"t": SOME, "free": Limits()},
        models={"m": SOME, "other": Limits()},
        tenant_models={("t", "m"): SOME},
    )
    assert names(book, "t", "m") == ["global", "tenant:t", "model:m", "tenant:t/model:m"]
    assert names(book, "t", "other") == ["global", "tenant:t"]
    assert names(book, "free", "m") == ["global", "model:m"]
    assert names(LimitBook(), "t", "m") == []


def test_a_pair_is_limited_though_neither_of_both_is() -> None:
    book = LimitBook(tenant_models={("t", "m"): SOME})
    assert names(book, "t", "m") == ["tenant:t/model:m"]
    assert names(book, "t", "n") == names(book, "u", "m") == []


def test_names_that_clients_make_up_are_not_remembered() -> None:
    book = LimitBook(SOME, tenants={"t": SOME}, models={"m": SOME})
    for number in range(1000):
        assert names(book, f"t{number}", f"m{number}") == ["global"]
        assert names(book, "t", f"m{number}") == ["global", "tenant:t"]
    assert len(book._known) == 2


def test_the_same_scopes_are_the_same_object() -> None:
    book = LimitBook(SOME, tenants={"t": SOME})
    assert book.scopes("t", "m") is book.scopes("t", "m") is book.scopes("t", "n")


@pytest.mark.parametrize("place", ["tenants", "models"])
def test_limits_out_of_range_are_found_at_once(place: str) -> None:
    with pytest.raises(ConfigError, match="limits"):
        LimitBook(SOME, **{place: {"x": Limits(concurrency=-1)}})  # type: ignore[arg-type]
