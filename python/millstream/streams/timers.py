"""The clocks of a worker: stream deadlines, keep-alive, clients that do not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from millstream.streams.registry import StreamRegistry
from millstream.streams.stream import Stream
from millstream.types import Outcome

SWEEP_SECONDS = 0.25


class Swept(Protocol):
    """Something that the sweep visits."""

    def sweep(self, now_ns: int) -> None:
        """Act on the time; ``now_ns`` is monotonic."""


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


class Sweeper:
    """Calls each of its parts a few times a second on the event loop, until closed."""

    def __init__(
        self, parts: list[Swept], *, clock: Callable[[], int], interval: float = SWEEP_SECONDS
    ) -> None:
        self._parts = parts
        self._clock = clock
        self._interval = interval
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; needs a running loop."""
        self._handle = asyncio.get_running_loop().call_later(self._interval, self._run)

    def close(self) -> None:
        """Stop; idempotent."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _run(self) -> None:
        self.start()
        now_ns = self._clock()
        for part in self._parts:
            try:
                part.sweep(now_ns)
            except Exception as error:
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"{type(part).__name__} failed to sweep", "exception": error}
                )
