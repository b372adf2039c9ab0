"""The hubs of one worker: a new one for each connection to an engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from millstream.streams.hub import Hub

if TYPE_CHECKING:
    from millstream._core import RingConsumer
    from millstream.engines.base import HubFactory
    from millstream.streams.hub import Wakeups


class Hubs:
    """Makes hubs, and reports what they drop: ``on_dropped`` gets the engine and the records."""

    def __init__(self, wakeups: Wakeups, on_dropped: Callable[[str, int], None]) -> None:
        self._wakeups = wakeups
        self._on_dropped = on_dropped
        self._reported: dict[Hub, tuple[str, int]] = {}

    def of(self, engine: str) -> HubFactory:
        """The factory for the engine of this name."""
        return partial(self._open, engine)

    def _open(
        self,
        engine: str,
        ring: RingConsumer,
        on_ended: Callable[[int], None],
        on_failed: Callable[[OSError], None],
    ) -> Hub:
        hub = Hub(self._wakeups, ring, on_ended, on_failed)
        self._reported[hub] = (engine, 0)
        return hub

    def sweep(self, now_ns: int) -> None:
        """Report what was dropped since the last time; ``now_ns`` does not matter."""
        for hub, (engine, reported) in tuple(self._reported.items()):
            dropped = hub.dropped
            if dropped > reported:
                self._reported[hub] = (engine, dropped)
                self._on_dropped(engine, dropped - reported)
            if hub.closed:
                del self._reported[hub]
