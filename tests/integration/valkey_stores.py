"""Stores on one server: each of them is what a worker would have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic_ns

from millstream._core import Encoder, Reader
from millstream.config.store import StoreSettings
from millstream.store import Recording, open_store
from millstream.store.valkey import ValkeyStore
from tests.integration.valkey_server import ValkeyServer
from tests.unit.store.recordings import Observed, Producer
from tests.waiting import HANG_SECONDS, until_true

PATIENT = 30.0
"""A lease in whose time nobody is taken for dead because the machine is busy."""
SHORT = 1.0
"""One that a test waits for."""


class Workers:
    """Opens stores, sweeps them as a worker would, and closes them all."""

    def __init__(self, server: ValkeyServer) -> None:
        self.server = server
        self._stores: list[ValkeyStore] = []
        self._sweeping = asyncio.create_task(self._sweep())

    async def open(
        self,
        *,
        observed: Observed | None = None,
        clock: Callable[[], int] = monotonic_ns,
        url: str | None = None,
        **more: object,
    ) -> ValkeyStore:
        settings: dict[str, object] = {"lease_seconds": PATIENT, "flush_ms": 10, **more}
        settings |= {"kind": "valkey", "url": url or self.server.url}
        store = open_store(
            StoreSettings.model_validate(settings), clock=clock, observer=observed or Observed()
        )
        assert isinstance(store, ValkeyStore)
        assert store.shared
        await store.start()
        self._stores.append(store)
        return store

    async def leave(self, store: ValkeyStore) -> None:
        """Let one of them go in good order."""
        self._stores.remove(store)
        await store.close()

    async def close(self) -> None:
        self._sweeping.cancel()
        await asyncio.gather(*(store.close() for store in self._stores))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            for store in self._stores:
                store.sweep(monotonic_ns())


async def found(store: ValkeyStore, stream_id: str) -> Recording:
    """The stream as soon as the store shows it."""
    recordings: list[Recording] = []

    async with asyncio.timeout(HANG_SECONDS):
        while not recordings:
            recording = await store.find(stream_id)
            if recording is None:
                await asyncio.sleep(0.01)
            else:
                recordings.append(recording)
    return recordings[0]


async def stored(server: ValkeyServer, recording: Recording) -> None:
    """Return when Valkey has the log as far as it goes."""
    tail = recording.log.tail

    def there() -> bool:
        newest = server.client.xrevrange(f"ms:{{{recording.id}}}:log", count=1)
        return bool(newest) and int(newest[0][0].partition(b"-")[2]) >= tail

    await until_true(there)


async def ended(recording: Recording) -> None:
    await until_true(lambda: recording.log.closed)


def frames(recording: Recording, after: int = 0) -> bytes:
    """What a reader is sent from here to the end of what is there."""
    descriptor = recording.descriptor
    encoder = Encoder(
        dialect="native",
        chunk_id="c",
        model="m",
        created=descriptor.created,
        epoch=descriptor.epoch,
    )
    return Reader(recording.log, encoder, after=after).take(1 << 24)


__all__ = ["Observed", "Producer", "Workers", "ended", "found", "frames", "stored"]
