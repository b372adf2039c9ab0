"""The deadlines of streams."""

from __future__ import annotations

from millstream.streams.registry import StreamRegistry
from millstream.streams.stream import Stream
from millstream.types import Outcome


class StreamTimers:
    """Ends the streams of a registry that took too long.

    One sweep over all streams costs less than a timer handle a token, and a deadline is late by
    no more than one sweep. Progress is a longer log, not a time stamp of the engine, so a jump
    of the wall clock ends nothing.
    """

    def __init__(self, registry: StreamRegistry) -> None:
        self._registry = registry
        self._progress: dict[str, tuple[int, int]] = {}

    def sweep(self, now_ns: int) -> None:
        """End every stream that is past one of its deadlines at ``now_ns``."""
        progress: dict[str, tuple[int, int]] = {}
        for stream in self._registry:
            tail = stream.log.tail
            seen = self._progress.get(stream.id)
            if seen is None or seen[0] != tail:
                seen = (tail, now_ns)
            progress[stream.id] = seen
            outcome = _overdue(stream, since_progress_ns=now_ns - seen[1], now_ns=now_ns)
            if outcome is not None:
                stream.end(outcome)
        self._progress = progress


def _overdue(stream: Stream, *, since_progress_ns: int, now_ns: int) -> Outcome | None:
    deadlines, age_ns = stream.deadlines, now_ns - stream.admitted_ns
    if _past(age_ns, deadlines.total_ns):
        return Outcome.TIMEOUT_TOTAL
    if stream.log.token_count == 0:
        return Outcome.TIMEOUT_FIRST_TOKEN if _past(age_ns, deadlines.first_token_ns) else None
    return Outcome.TIMEOUT_IDLE if _past(since_progress_ns, deadlines.idle_ns) else None


def _past(elapsed_ns: int, limit_ns: int | None) -> bool:
    return limit_ns is not None and elapsed_ns > limit_ns
