"""Brings the live streams of this process to Valkey, all of them in one round trip a tick."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING

from millstream.errors import StoreUnavailable
from millstream.store.valkey.outgoing import forgetting
from millstream.store.valkey.round import Round
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream.store.observer import StoreObserver
    from millstream.store.valkey.connection import Connection
    from millstream.store.valkey.health import Health
    from millstream.store.valkey.outgoing import Outgoing

_log = get_logger(__name__)

SHORTEST_TICK_NS = 1_000_000
LONGEST_TICK_NS = 25_000_000
RENEW_NS = 20_000_000_000
ROUND_STREAMS = 128
DROPPED_STREAMS = 10_000
REFUSED_SECONDS = 0.5


class Writer:
    """One task; a stream is its concern from `add` until all of it is written.

    Looks at its logs a few times in ``flush_ns``, which costs less than being told of each record,
    and at once when a stream begins or ends. ``stuck`` says that the last attempt failed.
    """

    def __init__(
        self,
        connection: Connection,
        health: Health,
        *,
        flush_ns: int,
        clock: Callable[[], int],
        observer: StoreObserver,
    ) -> None:
        self._connection = connection
        self._health = health
        self._flush_ns = flush_ns
        self._tick_seconds = min(max(flush_ns / 4, SHORTEST_TICK_NS), LONGEST_TICK_NS) / 1e9
        self._clock = clock
        self._observer = observer
        self.stuck = False
        self._outgoing: dict[str, Outgoing] = {}
        self._dropped: deque[tuple[str, tuple[bytes, ...]]] = deque(maxlen=DROPPED_STREAMS)
        self._look = asyncio.Event()
        self._renewed_ns = clock()

    def __len__(self) -> int:
        return len(self._outgoing)

    def get(self, stream_id: str) -> Outgoing | None:
        """A stream that is not written to its end."""
        return self._outgoing.get(stream_id)

    def add(self, outgoing: Outgoing) -> None:
        """Write this stream as it comes."""
        self._outgoing[outgoing.id] = outgoing
        self._look.set()

    def look(self) -> None:
        """A stream has ended: look at once."""
        self._look.set()

    def drop(self, stream_id: str) -> None:
        """Give up an ended stream that could not be written in all its time."""
        outgoing = self._outgoing.get(stream_id)
        if outgoing is not None and outgoing.log.closed:
            del self._outgoing[stream_id]
            self._dropped.append((stream_id, ()))
            self._look.set()
            _log.warning("stream_not_stored", stream=stream_id)

    def discard(self, stream_id: str, *keys: bytes) -> None:
        """Take away what is there of this stream, these keys too.

        Who reads it elsewhere is still told how it ended: without its end, a follower would take
        its producer for lost.
        """
        outgoing = self._outgoing.get(stream_id)
        if outgoing is not None and outgoing.created and outgoing.log.closed:
            outgoing.forgotten = True
        else:
            self._outgoing.pop(stream_id, None)
        self._dropped.append((stream_id, keys))
        self._look.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wait()
            try:
                # Under load there is always more to write, and keys must not expire meanwhile.
                while await self.flush():
                    await self._renew()
                await self._renew()
                self.stuck = False
            except StoreUnavailable:
                self.stuck = True
                await self._pause()

    async def drain(self) -> None:
        """Write all that is there, however often the server goes away meanwhile."""
        while any(one.behind for one in self._outgoing.values()):
            try:
                while await self.flush(hurry=True):
                    pass
            except StoreUnavailable:
                await self._pause()

    async def flush(self, *, hurry: bool = False) -> bool:
        """Write what is due, or with ``hurry`` all there is; False if there was nothing.

        Raises `StoreUnavailable`; how far it came is asked the next time.
        """
        await self._forget_dropped()
        await self._make_sure()
        now_ns, chosen = self._clock(), Round()
        for outgoing in self._outgoing.values():
            if outgoing.due(now_ns, self._flush_ns) or (hurry and outgoing.behind):
                chosen.add(outgoing)
                if chosen.full:
                    break
        if not chosen.commands:
            return False
        replies = await self._connection.send("write", chosen.commands)
        refusal = chosen.take(replies)
        self._observer.store_written(chosen.stored_entries, chosen.stored_bytes)
        for stream_id in [one.id for one in self._outgoing.values() if one.ended]:
            del self._outgoing[stream_id]
        if refusal is not None:
            self._health.refused("write", refusal)
            raise StoreUnavailable from refusal
        return True

    async def _forget_dropped(self) -> None:
        """Take away what is there of streams that were dropped: it would look live for ever."""
        while self._dropped:
            name, keys = dropped = self._dropped.popleft()
            try:
                await self._connection.call("write", *forgetting(name, *keys))
            except BaseException:
                self._dropped.appendleft(dropped)
                raise

    async def _make_sure(self) -> None:
        """Find out what is there of streams whose replies never came, or were not as expected."""
        unsure = iter([one for one in self._outgoing.values() if not one.sure])
        while some := list(islice(unsure, ROUND_STREAMS)):
            commands = [command for one in some for command in one.ask()]
            replies = iter(await self._connection.call("write", *commands))
            for outgoing in some:
                if not outgoing.answered(next(replies), next(replies)):
                    # Others have taken this process for dead and ended the stream: theirs counts.
                    self._outgoing.pop(outgoing.id, None)
                    _log.warning("stream_ended_elsewhere", stream=outgoing.id)

    async def _renew(self) -> None:
        """Keep the keys of live streams from expiring; make them anew where they have gone."""
        now_ns = self._clock()
        if now_ns - self._renewed_ns < RENEW_NS:
            return
        self._renewed_ns = now_ns
        live = iter([one for one in self._outgoing.values() if one.created])
        while some := list(islice(live, ROUND_STREAMS)):
            renewals = [tuple(one.renew()) for one in some]
            replies = iter(await self._connection.call("write", *chain(*renewals)))
            for outgoing, commands in zip(some, renewals, strict=True):
                outgoing.renewed([next(replies) for _ in commands])

    async def _pause(self) -> None:
        """Until the server may be there again; one that refuses is asked again less often."""
        refused = REFUSED_SECONDS if self._health.up else 0.0
        await asyncio.sleep(max(self._health.pause_seconds, refused, self._tick_seconds))

    async def _wait(self) -> None:
        if not self._outgoing and not self._dropped:
            await self._look.wait()
        elif not self._look.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._tick_seconds):
                    await self._look.wait()
        self._look.clear()
