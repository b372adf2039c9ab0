"""The Valkey store, put together."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from millstream.errors import StoreUnavailable
from millstream.store.claims import Claims
from millstream.store.observer import StoreObserver, Unobserved
from millstream.store.retained import Retained
from millstream.store.valkey import control
from millstream.store.valkey.beat import Beat
from millstream.store.valkey.connection import Connection
from millstream.store.valkey.follower import Follower
from millstream.store.valkey.health import LONGEST_PAUSE_NS, Health
from millstream.store.valkey.keys import (
    claim_key,
    control_key,
    is_stream_id,
    owner_key,
    stream_key,
)
from millstream.store.valkey.mirrors import Mirrors
from millstream.store.valkey.outgoing import Outgoing, forgetting
from millstream.store.valkey.remote_claims import RemoteClaims
from millstream.store.valkey.writer import Writer
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream.config.store import StoreSettings
    from millstream.store.base import Claim, IdempotencyKey, Producer
    from millstream.store.recording import Recording
    from millstream.store.valkey.mirror import Mirror

_log = get_logger(__name__)

CLOSE_SECONDS = 5.0
LIVE_MARGIN_SECONDS = 60.0
RESTART_SECONDS = 1.0


class ValkeyStore:
    """Streams of all processes that name the same server and database.

    What this process generated is also retained in its memory, within ``max_retained_bytes``, so
    that it can be resumed here while the server is away.
    """

    shared = True

    def __init__(
        self,
        settings: StoreSettings,
        *,
        clock: Callable[[], int] = monotonic_ns,
        observer: StoreObserver | None = None,
    ) -> None:
        observer = observer or Unobserved()
        self.process = secrets.token_hex(8)
        self._settings = settings
        lease_ns = int(settings.lease_seconds * 1e9)
        self.health = Health(
            clock=clock,
            observer=observer,
            # A producer has to be back well before anybody may take it for dead.
            longest_pause_ns=min(LONGEST_PAUSE_NS, lease_ns // 4),
        )
        self._connections = [Connection(settings.url, self.health) for _ in range(3)]
        self._asking, writing, reading = self._connections
        self._claims = Claims(clock=clock)
        self._remote_claims = RemoteClaims(self._asking)
        self._retained = Retained(
            max_bytes=settings.max_retained_bytes,
            clock=clock,
            observer=observer,
            on_dropped=self._dropped,
        )
        self._writer = Writer(
            writing,
            self.health,
            flush_ns=settings.flush_ms * 1_000_000,
            clock=clock,
            observer=observer,
        )
        self._mirrors = Mirrors(self._asking, wake=self._wake_follower, on_watched=self._watch)
        self._follower = Follower(
            reading, self.health, self.process, self._mirrors, on_message=self._asked
        )
        self._beat = Beat(
            self._asking,
            self.health,
            self.process,
            self._mirrors,
            lease_seconds=settings.lease_seconds,
            clock=clock,
            observer=observer,
        )
        self._tasks: list[asyncio.Task[None]] = []

    # --- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to write, read and beat, whether the server is there yet or not."""
        for run in (self._writer.run, self._follower.run, self._beat.run):
            self._tasks.append(asyncio.create_task(_for_ever(run)))

    async def close(self) -> None:
        """Write what is still to be written, for `CLOSE_SECONDS` at most, and let go."""
        if self._tasks:
            await self._stop()
        for connection in self._connections:
            await connection.close()

    async def _stop(self) -> None:
        writing, *others = self._tasks
        self._tasks = []
        await _cancel([writing])
        try:
            await self._drain()
        finally:
            await _cancel(others)
            await self._mirrors.close()
            with suppress(StoreUnavailable):
                keys = owner_key(self.process), control_key(self.process)
                await self._asking.call("beat", ("DEL", *keys))

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            _log.warning("streams_not_stored", streams=len(self._writer))

    def sweep(self, now_ns: int) -> None:
        """Drop what has expired or is not read any more; ``now_ns`` is monotonic."""
        self._retained.sweep(now_ns)
        self._claims.sweep(now_ns)
        self._mirrors.sweep(now_ns)

    # --- streams of this process ----------------------------------------------------------------

    def publish(self, recording: Recording, producer: Producer) -> None:
        """Write the stream as it comes, until its log is closed."""
        retention = recording.descriptor.retention_seconds
        live_seconds = retention + LIVE_MARGIN_SECONDS + 3 * self._settings.lease_seconds
        self._claims.hold(recording.id)
        self._writer.add(
            Outgoing(
                recording,
                producer,
                owner=self.process,
                claim=self._claims.of(recording.id),
                live_ttl_ms=int(live_seconds * 1000),
                max_entries=self._settings.max_entries,
            )
        )

    def keep(self, recording: Recording) -> None:
        """Retain it here too."""
        self._retained.add(recording)
        self._writer.look()

    def _dropped(self, stream_id: str) -> None:
        self._claims.drop(stream_id)
        if self._writer.stuck or self.health.up is False:
            # Its memory is wanted, and nobody knows when it could be written.
            self._writer.drop(stream_id)

    def _asked(self, message: control.Message) -> None:
        match message:
            case control.Cancel(stream, branch):
                if (outgoing := self._writer.get(stream)) is not None:
                    _contain(partial(outgoing.producer.cancel, branch))
            case control.Watch(streams):
                for outgoing in filter(None, map(self._writer.get, streams)):
                    _contain(outgoing.producer.watched)
            case control.Discard(stream):
                self._forget(stream)
            case control.Wake():
                pass

    # --- streams of others ----------------------------------------------------------------------

    async def find(self, stream_id: str) -> Recording | None:
        """A stream retained here, or a mirror of one that another process writes or wrote."""
        return self._retained.get(stream_id) or await self._mirrors.find(stream_id)

    async def cancel(self, stream_id: str, branch: int | None) -> bool:
        """Ask the process that generates it; whether it has, its log will tell."""
        if not is_stream_id(stream_id):
            return False
        command = ("HMGET", stream_key(stream_id), "owner", "outcome")
        ((owner, outcome),) = await self._asking.call("cancel", command)
        if owner is None or outcome is not None:
            return False
        post = control.post(owner.decode(), control.Cancel(stream_id, branch))
        (posted,) = await self._asking.call("cancel", post)
        return posted is not None

    async def discard(self, stream_id: str) -> None:
        """Forget it, here and where it was generated; a mirror elsewhere lingers for seconds."""
        if not is_stream_id(stream_id):
            return
        self._forget(stream_id)
        key = stream_key(stream_id)
        (owner,), *_ = await self._asking.call(
            "discard", ("HMGET", key, "owner"), *forgetting(stream_id)
        )
        if owner is not None and owner.decode() != self.process:
            post = control.post(owner.decode(), control.Discard(stream_id))
            await self._asking.call("discard", post)

    def _forget(self, stream_id: str) -> None:
        claimed = self._claims.of(stream_id)
        self._writer.discard(stream_id, *(() if claimed is None else (claim_key(claimed[0]),)))
        self._mirrors.discard(stream_id)
        self._retained.discard(stream_id)
        self._claims.drop(stream_id)

    async def _wake_follower(self) -> None:
        with suppress(StoreUnavailable):  # the follower will begin anew then anyway
            await self._asking.call("find", control.post(self.process, control.Wake()))

    def _watch(self, mirror: Mirror) -> None:
        self._beat.watch(mirror)

    # --- claims ---------------------------------------------------------------------------------

    async def claim(self, key: IdempotencyKey, claim: Claim, *, ttl_seconds: float) -> Claim | None:
        """Take a key among all processes."""
        earlier = self._claims.get(key)
        if earlier is None:
            earlier = await self._remote_claims.take(key, claim, ttl_seconds=ttl_seconds)
        if earlier is None:
            self._claims.take(key, claim, ttl_seconds=ttl_seconds)
        return earlier

    async def claimed(self, key: IdempotencyKey) -> Claim | None:
        """Who has a key among all processes."""
        return self._claims.get(key) or await self._remote_claims.get(key)

    async def release(self, key: IdempotencyKey, stream_id: str) -> None:
        """Free the key if this stream holds it; without the server it goes by its time."""
        self._claims.release(key, stream_id)
        await self._remote_claims.release(key, stream_id)


async def _for_ever(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """A task that a defect must not end: without it streams would silently not be kept."""
    while True:
        try:
            await run()
        except Exception as error:
            _log.error("store_task_failed", error=error)
            await asyncio.sleep(RESTART_SECONDS)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _contain(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:
        _log.error("producer_failed", error=error)
