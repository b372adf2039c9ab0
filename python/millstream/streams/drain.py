"""Leaving in good order on SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import TYPE_CHECKING

from millstream.streams.jitter import retry_ms
from millstream.types import Outcome

if TYPE_CHECKING:
    from millstream.streams.registry import StreamRegistry
    from millstream.streams.stream import Stream


class Drain:
    """No new admissions once begun; streams that still run at the deadline are shed.

    ``shared`` says whether another process can serve what is there of them: resumable ones are
    then handed over, and their readers told when to come back.
    """

    def __init__(
        self,
        registry: StreamRegistry,
        *,
        seconds: float,
        shared: bool,
        clock: Callable[[], int],
        random: Random | None = None,
    ) -> None:
        self._registry = registry
        self._seconds = seconds
        self._shared = shared
        self._clock = clock
        self._random = random or Random()  # noqa: S311 - spreads clients, keeps no secret
        self._deadline_ns: int | None = None

    @property
    def begun(self) -> bool:
        """Whether the worker is on its way out."""
        return self._deadline_ns is not None

    @property
    def deadline_ns(self) -> int | None:
        """When the worker's time is up, on the monotonic clock; None while it stays."""
        return self._deadline_ns

    def begin(self) -> None:
        """Start the countdown; later calls change nothing."""
        if self._deadline_ns is None:
            self._deadline_ns = self._clock() + int(self._seconds * 1e9)

    def sweep(self, now_ns: int) -> None:
        """Shed what is left once the deadline has passed."""
        if self._deadline_ns is not None and now_ns >= self._deadline_ns:
            self._shed()

    async def finish(self) -> None:
        """Return when no stream runs any more: all are shed that may not run on.

        Called when the server has closed its connections. What is left has no reader here, and
        gets the rest of its time only if readers elsewhere can have the result.
        """
        if self._shared and self._deadline_ns is not None:
            seconds = (self._deadline_ns - self._clock()) / 1e9
            await self._registry.wait_ended(max(seconds, 0))
        self.begin()
        self._shed()

    def _shed(self) -> None:
        for stream in self._registry:
            self._end(stream)

    def _end(self, stream: Stream) -> None:
        if self._shared and stream.descriptor.resumable:
            stream.hand_over(retry_ms(self._random))
        else:
            stream.end(Outcome.SHED)

    def install(self) -> None:
        """Hear SIGTERM and SIGINT, which Granian does not pass on to the app.

        The loop's wake-up descriptor still runs the server's own handler, so this only adds to
        it. Does nothing outside the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            previous = signal.getsignal(number)
            signal.signal(number, _chained(self.begin, previous))


def _chained(
    begin: Callable[[], None], previous: object
) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        begin()
        if callable(previous) and previous is not signal.default_int_handler:
            previous(number, frame)

    return handle
