"""``Priority``: what RFC 9218 says, and what is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.api.priority import asked_urgency


@pytest.mark.parametrize(
    ("values", "urgency"),
    [
        (["u=0"], 0),
        (["u=7"], 7),
        (["u=5, i"], 5),
        (["i, u=5"], 5),
        (["i=?0 ,\tu=1"], 1),
        (["u=1, u=6"], 6),
        (["u=1", "u=4"], 4),
        (["u=3;x=1;y"], 3),
        ([" u=2 "], 2),
        (['a="x, u=9", u=2'], 2),
        (["a=(1 2;b);c, u=2"], 2),
        (['a=1.5, b=:aGk=:, c=@1700000000, d=%"%c3%a9", e=tok/en, *f=?1, u=2'], 2),
        (["u=-0"], 0),
        (["u=1, u"], None),
        ([], None),
        ([""], None),
        (["i"], None),
        (["u"], None),
        (["u=8"], None),
        (["u=-1"], None),
        (["u=1.0"], None),
        (["u=?1"], None),
        (['u="1"'], None),
        (["u=(1)"], None),
        (["u=one"], None),
        (["U=1"], None),
        (["u = 1"], None),
        (["u=1,"], None),
        (["u=1,,i"], None),
        (["u=1; , i"], None),
        (["u=1 i"], None),
        (["u=2, x=é"], None),
        (["u=1, " + "a" * 2000], None),
        (["u=9999999999999999"], None),
    ],
    ids=repr,
)
def test_the_urgency_is_read_as_the_structured_field_that_it_is(
    values: list[str], urgency: int | None
) -> None:
    assert asked_urgency(values) == urgency


@given(st.lists(st.text(max_size=80), max_size=3))
def test_no_field_makes_it_fail(values: list[str]) -> None:
    found = asked_urgency(values)
    assert found is None or 0 <= found <= 7


PIECES = st.sampled_from(list('u=07;,() \t"\\?:@%-.*ai'))


@given(st.lists(PIECES, max_size=60).map("".join))
def test_no_field_of_its_own_characters_makes_it_fail(text: str) -> None:
    found = asked_urgency([text])
    assert found is None or 0 <= found <= 7


@pytest.mark.parametrize("piece", ["a;", "a=(", "a=( ", "a=1;b", 'a="', "a, ", "a=(1 ", "a=;  "])
def test_a_hostile_field_is_read_in_time(piece: str) -> None:
    # Each is near the longest that is read; a pattern that tries all ways would never return.
    assert asked_urgency([piece * (1024 // len(piece))]) is None
