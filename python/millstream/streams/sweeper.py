"""One timer for everything in a worker that goes by the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

SWEEP_SECONDS = 0.25


class Swept(Protocol):
    """Something that the sweep visits."""

    def sweep(self, now_ns: int) -> None:
        """Act on the time; ``now_ns`` is monotonic."""


class Sweeper:
    """Calls each of its parts a few times a second on the event loop, until closed."""

    def __init__(
        self,
        parts: list[Swept],
        *,
        clock: Callable[[], int] = monotonic_ns,
        interval: float = SWEEP_SECONDS,
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
