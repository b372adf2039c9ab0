"""The trace that a request belongs to, as W3C's Trace Context writes it."""

from __future__ import annotations

import re

# Version 00 has exactly these members; a later one may add more behind them.
_TRACE_PARENT = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)


def trace_id(trace_parent: bytes) -> str | None:
    """The trace id of a ``traceparent``, 32 hex digits; None if it is not valid."""
    found = _TRACE_PARENT.fullmatch(trace_parent.strip(b" \t"))
    if found is None or (found[1] == b"00" and found[3] is not None):
        return None
    return found[2].decode()
