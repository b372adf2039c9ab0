from __future__ import annotations

import pytest

from millstream.durable.cursor import EPOCH_UNIX_NS, INTERVAL_NS, later_cursor, next_cursor

NOW = EPOCH_UNIX_NS + 1000 * INTERVAL_NS


@pytest.mark.parametrize("sent", [None, "", "999", "x", "-5", "9" * 16, "１２"])
def test_the_cursor_is_the_number_of_the_interval(sent: str | None) -> None:
    assert next_cursor(sent, unix_ns=NOW, jitter=lambda _: 0) == "1000"
    assert next_cursor(sent, unix_ns=NOW + INTERVAL_NS - 1, jitter=lambda _: 0) == "1000"


@pytest.mark.parametrize(("seconds", "expected"), [(0, "1001"), (20, "1002"), (3599, "1180")])
def test_a_cursor_that_would_repeat_goes_on(seconds: int, expected: str) -> None:
    assert next_cursor("1000", unix_ns=NOW, jitter=lambda _: seconds) == expected


def test_a_cursor_ahead_of_time_never_goes_back() -> None:
    assert int(next_cursor("5000", unix_ns=NOW, jitter=lambda _: 0)) > 5000
    assert later_cursor("5000", unix_ns=NOW) == "5000"
    assert later_cursor("10", unix_ns=NOW) == "1000"
