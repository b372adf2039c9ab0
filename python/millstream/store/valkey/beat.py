"""This process's sign of life, and its look at those of others."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING

from millstream.errors import StoreUnavailable
from millstream.store.valkey import control
from millstream.store.valkey.absences import Absences
from millstream.store.valkey.keys import control_key, owner_key, stream_key
from millstream.store.valkey.seal import seal
from millstream.types import Outcome

if TYPE_CHECKING:
    from millstream.store.observer import StoreObserver
    from millstream.store.valkey.connection import Connection
    from millstream.store.valkey.health import Health
    from millstream.store.valkey.mirror import Mirror
    from millstream.store.valkey.mirrors import Mirrors

WATCH_SECONDS = 1.0
CONTROL_LEASES = 6


class Beat:
    """Renews the lease three times in its life, tells producers that their streams are read.

    A stream whose owner, or whose keys, have been missing for a whole lease without a failure of
    the server in between is ended.
    """

    def __init__(
        self,
        connection: Connection,
        health: Health,
        process: str,
        mirrors: Mirrors,
        *,
        lease_seconds: float,
        clock: Callable[[], int],
        observer: StoreObserver,
    ) -> None:
        self._connection = connection
        self._health = health
        self._process = process
        self._mirrors = mirrors
        self._lease_ms = int(lease_seconds * 1000)
        self._interval = lease_seconds / 3
        self._clock = clock
        self._observer = observer
        self._owners = Absences(int(lease_seconds * 1e9))
        self._streams = Absences(int(lease_seconds * 1e9))
        self._watch = asyncio.Event()

    def watch(self, mirror: Mirror) -> None:
        """Tell the producers at once which of their streams are read."""
        self._watch.set()

    async def run(self) -> None:
        """Beat until cancelled."""
        due = 0.0
        loop = asyncio.get_running_loop()
        while True:
            try:
                if loop.time() >= due:
                    due = loop.time() + self._interval
                    await self._beat()
                await self._tell_producers()
            except StoreUnavailable:
                due = 0.0
                await asyncio.sleep(max(self._health.pause_seconds, 0.01))
            else:
                await self._pause(min(max(due - loop.time(), 0), WATCH_SECONDS))

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._watch.wait()
        self._watch.clear()

    async def _beat(self) -> None:
        mirrors = list(self._mirrors)
        owners = sorted({mirror.owner for mirror in mirrors})
        _, listening, *present = await self._connection.call(
            "beat",
            ("SET", owner_key(self._process), 1, "PX", self._lease_ms),
            ("PEXPIRE", control_key(self._process), CONTROL_LEASES * self._lease_ms),
            *(("EXISTS", owner_key(owner)) for owner in owners),
            *(("EXISTS", stream_key(mirror.id)) for mirror in mirrors),
        )
        if not listening:
            await self._connection.call("beat", control.opened(self._process))
        dead = self._missing(self._owners, owners, present)
        lost = self._missing(self._streams, [one.id for one in mirrors], present[len(owners) :])
        for mirror in mirrors:
            await self._judge(mirror, lost=mirror.id in lost, orphaned=mirror.owner in dead)

    def _missing(self, absences: Absences, names: list[str], present: list[int]) -> set[str]:
        now_ns, failures = self._clock(), self._health.failures
        absences.keep(set(names))
        return {
            name
            for name, there in zip(names, present, strict=False)
            if absences.gone(name, bool(there), now_ns=now_ns, failures=failures)
        }

    async def _judge(self, mirror: Mirror, *, lost: bool, orphaned: bool) -> None:
        if mirror.log.closed:
            return
        if lost:
            self._mirrors.lose(mirror)
        elif orphaned:
            answer = await seal(self._connection, mirror, time_ns=time_ns())
            if answer == "sealed":
                self._count(mirror)

    def _count(self, mirror: Mirror) -> None:
        route = mirror.descriptor.route
        for index, branch in enumerate(mirror.descriptor.branches):
            outcome = mirror.log.outcome_of(index) or Outcome.ENGINE_LOST
            self._observer.store_sealed(route, branch.model, outcome)

    async def _tell_producers(self) -> None:
        read = defaultdict[str, list[str]](list)
        for mirror in self._mirrors:
            if mirror.readers > 0:
                read[mirror.owner].append(mirror.id)
        if read:
            posts = (control.post(owner, control.Watch(ids)) for owner, ids in read.items())
            await self._connection.call("beat", *posts)
