"""The streams of other processes that somebody here reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from time import time_ns
from typing import TYPE_CHECKING

import msgspec

from millstream.errors import StoreUnavailable
from millstream.store.valkey.keys import EntryId, is_stream_id, log_key, stream_key
from millstream.store.valkey.mirror import RECORDS_LOST, Mirror, mirror_of
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream.store.valkey.connection import Connection, Reply

_log = get_logger(__name__)

LINGER_NS = 5_000_000_000
CHUNK_ENTRIES = 128
ATTEMPTS = 3


class Mirrors:
    """Each is filled once and then followed, however many readers it has.

    One without readers stays for `LINGER_NS`: a client that was cut off comes back. ``wake`` is
    awaited when there is one more to follow, ``on_watched`` called when one gets a first reader.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        wake: Callable[[], Awaitable[None]],
        on_watched: Callable[[Mirror], None],
    ) -> None:
        self._connection = connection
        self._wake = wake
        self._on_watched = on_watched
        self._mirrors: dict[str, Mirror] = {}
        self._opening: dict[str, asyncio.Task[Mirror | None]] = {}

    def __len__(self) -> int:
        return len(self._mirrors)

    def __iter__(self) -> Iterator[Mirror]:
        """Those whose streams go on."""
        return iter([one for one in self._mirrors.values() if not one.log.closed])

    async def find(self, stream_id: str) -> Mirror | None:
        """A mirror with all that was stored up to now; None if there is no such stream.

        Raises `StoreUnavailable`.
        """
        mirror = self._mirrors.get(stream_id)
        if mirror is not None:
            if not mirror.log.closed:
                mirror.idle_since_ns = None  # else whoever asks often would see it for ever
            return mirror
        if not is_stream_id(stream_id):
            return None
        task = self._opening.get(stream_id)
        if task is None:
            task = asyncio.create_task(self._open(stream_id))
            self._opening[stream_id] = task
            task.add_done_callback(lambda _: self._opening.pop(stream_id, None))
        # The others who wait for it go on if one of them is cancelled.
        return await asyncio.shield(task)

    def discard(self, stream_id: str) -> None:
        """Show this one no more; who reads it reads on."""
        self._mirrors.pop(stream_id, None)

    def sweep(self, now_ns: int) -> None:
        """Let go of those that nobody reads any more."""
        for mirror in tuple(self._mirrors.values()):
            if mirror.readers > 0:
                mirror.idle_since_ns = None
            elif mirror.idle_since_ns is None:
                mirror.idle_since_ns = now_ns
            elif now_ns - mirror.idle_since_ns >= LINGER_NS:
                del self._mirrors[mirror.id]

    def take(self, mirror: Mirror, entries: list[Reply]) -> None:
        """Bring a mirror on; one that cannot be brought on is ended here and not shown again."""
        try:
            mirror.take(entries)
        except ValueError as error:
            _log.warning("stream_unreadable", stream=mirror.id, reason=str(error))
            self.lose(mirror)

    def lose(self, mirror: Mirror) -> None:
        """Nobody can say how this one goes on: end it for those who read it."""
        mirror.lose(RECORDS_LOST, time_ns=time_ns())
        if self._mirrors.get(mirror.id) is mirror:
            del self._mirrors[mirror.id]

    async def close(self) -> None:
        """Give up what is being opened."""
        tasks = list(self._opening.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(self, stream_id: str) -> Mirror | None:
        for _ in range(ATTEMPTS):
            try:
                mirror = await self._filled(stream_id)
            except (ValueError, msgspec.DecodeError) as error:
                # Entries went for want of room while we read: from the new beginning, then.
                reason = str(error)
                continue
            if mirror is not None:
                self._mirrors[stream_id] = mirror
                if not mirror.log.closed:
                    await self._wake()
            return mirror
        _log.warning("stream_unreadable", stream=stream_id, reason=reason)
        raise StoreUnavailable("The stream cannot be read from the store.")

    async def _filled(self, stream_id: str) -> Mirror | None:
        log = log_key(stream_id)
        fields, oldest, newest = await self._connection.call(
            "find",
            ("HMGET", stream_key(stream_id), "descriptor", "owner"),
            ("XRANGE", log, "-", "+", "COUNT", 1),
            ("XREVRANGE", log, "+", "-", "COUNT", 1),
        )
        mirror = mirror_of(fields, oldest, on_watched=self._on_watched)
        if mirror is None:
            return None
        recorded = EntryId.parse(newest[0][0]) if newest else mirror.last
        while mirror.last < recorded and not mirror.log.closed:
            after = b"(%b" % bytes(mirror.last)
            command = ("XRANGE", log, after, "+", "COUNT", CHUNK_ENTRIES)
            (entries,) = await self._connection.call("find", command)
            if not entries:
                break
            mirror.take(entries)
        return mirror
