"""Which streams to look at, without looking at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from itertools import count

from millstream.durable.stream import DurableStream

Key = tuple[str, str]
"""Tenant and path of a stream."""

_SLACK = 64


class Deadlines:
    """A heap over ``streams``; a deadline that has moved since is seen when the old one passes."""

    def __init__(self, streams: Mapping[Key, DurableStream]) -> None:
        self._streams = streams
        self._heap: list[tuple[int, int, Key, DurableStream]] = []
        self._ties = count()

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, key: Key) -> None:
        """Visit this stream, which exists, when its time may be over."""
        self._push(key, self._streams[key])
        if len(self._heap) > 2 * len(self._streams) + _SLACK:
            # Streams that were deleted long before their time.
            self._heap = []
            for known, stream in self._streams.items():
                self._push(known, stream)

    def passed(self, now_ns: int) -> list[Key]:
        """Streams whose time is over."""
        due = []
        while self._heap and self._heap[0][0] <= now_ns:
            due.append(heapq.heappop(self._heap)[2:])
        current = [(key, stream) for key, stream in due if self._streams.get(key) is stream]
        for key, stream in current:
            if not stream.over(now_ns):
                self._push(key, stream)
        return [key for key, stream in current if stream.over(now_ns)]

    def _push(self, key: Key, stream: DurableStream) -> None:
        deadline = stream.lifetime.deadline_ns()
        if deadline is not None:
            heapq.heappush(self._heap, (deadline, next(self._ties), key, stream))
