"""The streams that live in this worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.streams.stream import Stream


class StreamRegistry:
    """Streams by id, from admission until release."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}

    def add(self, stream: Stream) -> None:
        """Keep a stream until it is discarded."""
        self._streams[stream.id] = stream

    def discard(self, stream: Stream) -> None:
        """Forget a stream; unknown ones are ignored."""
        self._streams.pop(stream.id, None)

    def get(self, stream_id: str) -> Stream | None:
        """The stream of this id, if it is here."""
        return self._streams.get(stream_id)

    async def wait_ended(self, seconds: float) -> bool:
        """Wait until every stream here has its outcome; False if the time is up before."""
        waiting = [asyncio.ensure_future(stream.wait_ended()) for stream in self]
        if not waiting:
            return True
        _, pending = await asyncio.wait(waiting, timeout=seconds)
        for task in pending:
            task.cancel()
        return not pending

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[Stream]:
        """Over a copy, so that the caller may end streams on the way."""
        return iter(tuple(self._streams.values()))
