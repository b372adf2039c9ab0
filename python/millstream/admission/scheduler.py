"""When to look again: the loop's clock, or one that a test turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

NANOSECONDS_PER_MILLISECOND = 1_000_000


class Scheduled(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Let it not come."""
        ...


class Scheduler(Protocol):
    """Calls back at a time of the clock that it belongs to."""

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Scheduled:
        """Call once ``when_ns`` has come."""
        ...


class LoopScheduler:
    """The running event loop, asked in the time of ``clock``."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> Scheduled:
        """Call once ``when_ns`` has come, up to a millisecond later."""
        # uvloop rounds to whole milliseconds, down as well as up.
        milliseconds = -((self._clock() - when_ns) // NANOSECONDS_PER_MILLISECOND)
        return asyncio.get_running_loop().call_later(max(milliseconds, 0) / 1000, callback)
