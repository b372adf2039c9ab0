"""Streams that have ended, until their time is up or their room is needed."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from millstream.store.recording import Recording

if TYPE_CHECKING:
    from millstream.store.observer import StoreObserver


class _Kept(NamedTuple):
    recording: Recording
    expires_ns: int
    size_bytes: int


class Retained:
    """Keeps each for its ``retention_seconds``, all within ``max_bytes``: the oldest go first.

    ``on_dropped`` is called with the id of each that goes. Readers that follow one of these keep
    its log alive themselves.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        clock: Callable[[], int],
        observer: StoreObserver,
        on_dropped: Callable[[str], None],
    ) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._observer = observer
        self._on_dropped = on_dropped
        self._kept: dict[str, _Kept] = {}  # in the order in which they ended
        self._expiries: list[tuple[int, str]] = []
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, stream: Recording) -> None:
        """Keep a stream from now on; of its maker only the descriptor and the log stay."""
        self._forget(stream.id)
        descriptor, log = stream.descriptor, stream.log
        expires_ns = self._clock() + int(descriptor.retention_seconds * 1e9)
        kept = _Kept(Recording(descriptor, log), expires_ns, log.memory_bytes)
        self._kept[stream.id] = kept
        self.bytes += kept.size_bytes
        heapq.heappush(self._expiries, (expires_ns, stream.id))
        while self.bytes > self._max_bytes:
            self._drop(next(iter(self._kept)))
        self._tell()

    def get(self, stream_id: str) -> Recording | None:
        """A stream whose time is not up."""
        kept = self._kept.get(stream_id)
        return None if kept is None or kept.expires_ns <= self._clock() else kept.recording

    def discard(self, stream_id: str) -> None:
        """Drop one before its time; unknown ones are ignored."""
        if stream_id in self._kept:
            self._drop(stream_id)
            self._tell()

    def sweep(self, now_ns: int) -> None:
        """Drop those whose time is up."""
        if not self._expiries or self._expiries[0][0] > now_ns:
            return
        while self._expiries and self._expiries[0][0] <= now_ns:
            expires_ns, stream_id = heapq.heappop(self._expiries)
            kept = self._kept.get(stream_id)
            # It may have gone for want of room, or been kept anew.
            if kept is not None and kept.expires_ns == expires_ns:
                self._drop(stream_id)
        self._tell()

    def _drop(self, stream_id: str) -> None:
        self._forget(stream_id)
        self._on_dropped(stream_id)

    def _forget(self, stream_id: str) -> None:
        kept = self._kept.pop(stream_id, None)
        if kept is not None:
            self.bytes -= kept.size_bytes

    def _tell(self) -> None:
        self._observer.store_retained(len(self._kept), self.bytes)
