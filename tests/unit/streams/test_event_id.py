"""The names of records, strictly read."""

from __future__ import annotations

import pytest

from millstream.streams.event_id import EventId, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1-1", EventId(1, 1)),
        ("1-0", EventId(1, 0)),
        ("12-9007199254740993", EventId(12, 9007199254740993)),
        ("3-8-0000beef", EventId(3, 8, 0xBEEF)),
    ],
)
def test_an_id_is_read_as_it_is_written(text: str, expected: EventId) -> None:
    assert parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1-",
        "-1",
        "1-1-",
        "1-1-beef",
        "1-1-0000BEEF",
        "1-1-0000beef0",
        " 1-1",
        "1-1\n",
        "1--1",
        "+1-1",
        "1-1.0",
        "1-٣",
        "1-9999999999999999999",
        "1-10000000000000000000",
        "a" * 10_000,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"event id|larger than any"):
        parse(text)


def test_a_bare_seq_is_an_id_only_where_that_is_allowed() -> None:
    assert parse("17", bare=True) == EventId(None, 17)
    assert str(EventId(None, 17)) == "17"
    with pytest.raises(ValueError, match="event id"):
        parse("17")
    with pytest.raises(ValueError, match="event id"):
        parse("17x", bare=True)
    with pytest.raises(ValueError, match="larger than any"):
        parse("9999999999999999999", bare=True)
