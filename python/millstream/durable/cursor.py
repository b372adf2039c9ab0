"""Cursors of live reads: they change with time, so that a cache in between cannot loop."""

from __future__ import annotations

from collections.abc import Callable

INTERVAL_NS = 20_000_000_000
EPOCH_UNIX_NS = 1_728_432_000_000_000_000
"""2024-10-09T00:00:00Z, from which the protocol counts intervals."""
MAX_JITTER_SECONDS = 3600
_MAX_DIGITS = 15


def next_cursor(sent: str | None, *, unix_ns: int, jitter: Callable[[int], int]) -> str:
    """The number of the current interval, or one beyond what the client ``sent``.

    ``jitter`` gives a whole number below its argument.
    """
    current = _interval(unix_ns)
    known = sent is not None and sent.isascii() and sent.isdigit() and len(sent) <= _MAX_DIGITS
    theirs = int(sent) if known and sent is not None else -1
    if theirs < current:
        return str(current)
    seconds = 1 + jitter(MAX_JITTER_SECONDS)
    return str(theirs + max(1, -(-seconds * 1_000_000_000 // INTERVAL_NS)))


def later_cursor(given: str, *, unix_ns: int) -> str:
    """The cursor for a further event of a connection that has been ``given`` one."""
    return str(max(int(given), _interval(unix_ns)))


def _interval(unix_ns: int) -> int:
    return max(0, (unix_ns - EPOCH_UNIX_NS) // INTERVAL_NS)
