from __future__ import annotations

import pytest

from millstream.client import EventId


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("1-7", EventId(1, 7)),
        ("12-345-0000abcd", EventId(12, 345, 0xABCD)),
        ("1-1-00000000", EventId(1, 1, 0)),
    ],
)
def test_an_id_is_read_and_written(text: str, parsed: EventId) -> None:
    assert EventId.parse(text) == parsed
    assert str(parsed) == text


@pytest.mark.parametrize(
    "text", ["", "1", "1-", "-1", "1-2-", "1-2-abc", "1-2-ABCD0123", "1-2-abcdefgh", "1-2 ", "١-٢"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an event id"):
        EventId.parse(text)
