"""A hub in a few lines: records of one ring into lists, for tests that look at single records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from millstream._core import RingConsumer
from millstream.types import Kind
from tests.reference.records import Taken, drain

if TYPE_CHECKING:
    from millstream._core import Log


class RecordBook(list[Taken]):
    """Stands where a log stands; holds the records themselves."""

    def as_log(self) -> Log:
        """Itself, as the engine's interface wants to see it."""
        return cast("Log", self)


class BookHub:
    """Delivers into `RecordBook`s; satisfies `millstream.engines.base.Hub`."""

    def __init__(
        self,
        ring: RingConsumer,
        on_ended: Callable[[int], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        self.dropped: list[Taken] = []
        self._ring = ring
        self._on_ended = on_ended
        self._on_failed = on_failed
        self._books: dict[int, RecordBook] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(ring.fileno(), self.drain)

    def attach(self, request: int, log: Log) -> None:
        self._books[request] = cast("RecordBook", log)

    def detach(self, request: int) -> None:
        self._books.pop(request, None)

    def drain(self) -> None:
        try:
            records = drain(self._ring)
        except OSError as error:
            self.close()
            self._on_failed(error)
            return
        for record in records:
            self._books.get(record.stream, self.dropped).append(record)
            if record.kind in (Kind.USAGE, Kind.ERROR):
                self._on_ended(record.stream)

    def close(self) -> None:
        self._loop.remove_reader(self._ring.fileno())
