"""Keeps the leases of this process from expiring, all of them in a few calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from millstream.admission.valkey.outage import Unreachable

if TYPE_CHECKING:
    from millstream.admission.valkey.calls import Calls
    from millstream.admission.valkey.errands import Errands
    from millstream.admission.valkey.lease import ValkeyLease

MOST_LEASES = 256
"""In one call, which nobody else's may interrupt."""


class Renewals:
    """The open leases; one that its owner has dropped is left to expire."""

    def __init__(
        self,
        errands: Errands,
        calls: Calls,
        *,
        lease_ns: int,
        clock: Callable[[], int],
    ) -> None:
        self._errands = errands
        self._calls = calls
        self._lease_ns = lease_ns
        self._clock = clock
        self._open: WeakValueDictionary[str, ValkeyLease] = WeakValueDictionary()

    def add(self, lease: ValkeyLease) -> None:
        """Renew it from now on."""
        self._open[lease.name] = lease

    def remove(self, lease: ValkeyLease) -> None:
        """It has ended."""
        self._open.pop(lease.name, None)

    def __len__(self) -> int:
        return len(self._open)

    async def run(self) -> None:
        """Renew three times in the life of a lease, and when Valkey is back; until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._lease_ns / 3e9):
                    await self._errands.recovered.wait()
            self._errands.recovered.clear()
            with suppress(Unreachable):
                await self.renew()

    async def renew(self) -> None:
        """Renew all open leases now; raises `Unreachable`."""
        leases = list(self._open.values())
        for at in range(0, len(leases), MOST_LEASES):
            await self._renew(leases[at : at + MOST_LEASES])

    async def _renew(self, leases: Sequence[ValkeyLease]) -> None:
        call = self._calls.renew({lease.name: lease.scopes.names for lease in leases})
        answers: Any = await self._errands.ask(call)
        now_ns = self._clock()
        for lease, is_open in zip(leases, answers, strict=True):
            if is_open:
                lease.expires_ns = now_ns + self._lease_ns
            else:
                lease.expires_ns = now_ns
                self.remove(lease)
