"""What is a W3C ``traceparent``, and what only looks like one."""

from __future__ import annotations

import pytest

from millstream.middleware.trace_parent import trace_id

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


@pytest.mark.parametrize(
    "text",
    [
        f"00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-00",
        f"01-{TRACE}-{SPAN}-09",
        f"cc-{TRACE}-{SPAN}-01-what-the-future-holds",
    ],
)
def test_the_trace_of_a_valid_one_is_known(text: str) -> None:
    assert trace_id(text.encode()) == TRACE


@pytest.mark.parametrize(
    "text",
    [
        "",
        TRACE,
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01\n",
        f"01-{TRACE}-{SPAN}-01x",
    ],
)
def test_any_other_has_none(text: str) -> None:
    assert trace_id(text.encode()) is None
