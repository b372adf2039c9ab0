"""Limits that all workers and instances share, counted by a script inside Valkey."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from millstream.admission.costs import check_cost, impossible
from millstream.admission.leases import Refusal
from millstream.admission.memory import LEASE_TTL_NS, OPEN_RETRY_NS
from millstream.admission.meters import DIMENSIONS, HELD, NOTHING_LIMITED
from millstream.admission.shared_quota import UNIT_NS
from millstream.admission.unlimited import UnlimitedLease
from millstream.admission.valkey.calls import UNKNOWN, Calls
from millstream.admission.valkey.errands import Errands
from millstream.admission.valkey.lease import ValkeyLease
from millstream.admission.valkey.link import Link
from millstream.admission.valkey.meters import snapshot_of
from millstream.admission.valkey.outage import LimiterObserver, Outage, Unobserved, Unreachable
from millstream.admission.valkey.quotas import ScopeBook, Scopes
from millstream.admission.valkey.renewals import Renewals
from millstream.admission.valkey.share import ShareLimiter
from millstream.errors import LimiterUnavailable

if TYPE_CHECKING:
    from millstream.admission.base import Cost, ScopedLimits
    from millstream.admission.leases import Lease
    from millstream.admission.meters import Snapshot
    from millstream.config.limiter import LimiterSettings

CALL_SECONDS = 1.0
"""An answer that takes longer is no answer: a request does not wait for its limits."""

CLOSE_SECONDS = 2.0
"""How long `close` waits for settlements to arrive."""


class ValkeyLimiter:
    """Counters in Valkey, one call a decision; a `millstream.admission.Limiter`.

    While Valkey is away, ``settings.when_down`` decides: `local` grants this worker its share of
    each limit, one part in ``settings.instances * workers``, beyond what was granted before;
    `refuse` raises LimiterUnavailable. ``clock`` is monotonic, in nanoseconds. ``reading`` replaces
    the server's own clock, for tests, in units of 500 ns.
    """

    def __init__(
        self,
        settings: LimiterSettings,
        *,
        workers: int = 1,
        clock: Callable[[], int] = monotonic_ns,
        observer: LimiterObserver | None = None,
        local_lease_ttl_ns: int = LEASE_TTL_NS,
        call_seconds: float = CALL_SECONDS,
        reading: Callable[[], int] | None = None,
    ) -> None:
        self._clock = clock
        self._lease_ns = int(settings.lease_seconds * 1e9)
        self._refuses = settings.when_down == "refuse"
        self._share = ShareLimiter(
            settings.instances * workers, clock=clock, lease_ttl_ns=local_lease_ttl_ns
        )
        self._book = ScopeBook(settings.namespace)
        self._calls = Calls(self._book, lease_ns=self._lease_ns, reading=reading)
        self._link = Link(settings.url, call_seconds=call_seconds)
        outage = Outage(observer or Unobserved())
        self._errands = Errands(self._link, outage, self._calls.probe(), clock=clock)
        self._renewals = Renewals(self._errands, self._calls, lease_ns=self._lease_ns, clock=clock)
        self._prefix = secrets.token_urlsafe(9)
        self._numbers = count()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Reach Valkey; returns also when it is away."""
        await self._errands.probe()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(part.run()) for part in (self._errands, self._renewals)]

    async def close(self) -> None:
        """Hand over the settlements that are still on their way, for two seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._errands.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._link.close()

    async def reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        """Take ``cost`` from every scope, or nothing; without scopes nothing is limited.

        A caller that is cancelled meanwhile takes nothing. Raises CostExceedsLimit if no waiting
        could help, ValueError for a cost outside 1..2**40, ConfigError for limits out of range,
        LimiterUnavailable if Valkey is away and that is to be refused.
        """
        check_cost(cost)
        if not scopes:
            return UnlimitedLease(cost.tokens)
        prepared = self._book.prepared(scopes)
        name = f"{self._prefix}{next(self._numbers)}:{cost.kibibytes}"
        unwanted = partial(self._unwanted, name, prepared, cost)
        call = self._calls.reserve(prepared, name, cost)
        again = self._calls.reserve(prepared, name, cost, again=True)
        try:
            answer = self._errands.ask(call, again=again, unwanted=unwanted)
        except Unreachable as error:
            return self._without(error, scopes, cost)
        try:
            found = await answer
        except asyncio.CancelledError:
            if not answer.cancelled():  # it had come, and nobody will see it
                unwanted(answer.exception() or answer.result())
            raise
        except Unreachable as error:
            self._abandon(error, name, prepared, cost)
            return self._without(error, scopes, cost)
        return self._decision(found, name, prepared, cost)

    async def peek(self, scopes: tuple[ScopedLimits, ...]) -> Snapshot:
        """What is left in the tightest scope of each dimension; takes nothing."""
        if not scopes:
            return NOTHING_LIMITED
        prepared = self._book.prepared(scopes)
        try:
            meters: Any = await self._errands.ask(self._calls.peek(prepared))
        except Unreachable as error:
            if self._refuses:
                raise _unavailable() from error
            return self._share.try_peek(scopes)
        return snapshot_of(meters, prepared.names)

    def end(self, lease: ValkeyLease, *, undone: bool, actual: int) -> None:
        """Send the ending of a lease on its way."""
        self._renewals.remove(lease)
        call = self._calls.finish(
            lease.scopes, lease.name, lease.cost, lease.charges, actual=actual, undone=undone
        )
        self._errands.tell(call, deadline_ns=lease.expires_ns)

    def has_expired(self, lease: ValkeyLease) -> bool:
        """Whether the lease was neither ended nor renewed in all its time."""
        return self._clock() >= lease.expires_ns

    def _decision(self, answer: Any, name: str, scopes: Scopes, cost: Cost) -> Lease | Refusal:
        taken, about, meters = answer
        snapshot = snapshot_of(meters, scopes.names)
        if taken:
            lease = self._lease(name, scopes, cost, about, snapshot)
            self._renewals.add(lease)
            return lease
        position, number, wait, permanent = about
        scope, dimension = scopes.names[position - 1], DIMENSIONS[number - 1]
        if permanent:
            raise impossible(scopes.members, scope, dimension, cost)
        least_ns = OPEN_RETRY_NS if dimension in HELD else 0
        wait_ns = max(wait * UNIT_NS, least_ns)
        return Refusal(scope, dimension, wait_ns, snapshot, scopes.members)

    def _lease(
        self, name: str, scopes: Scopes, cost: Cost, charges: Any, snapshot: Any
    ) -> ValkeyLease:
        expires_ns = self._clock() + self._lease_ns
        return ValkeyLease(name, scopes, cost, charges, snapshot, expires_ns, self)

    def _without(
        self, error: Unreachable, scopes: tuple[ScopedLimits, ...], cost: Cost
    ) -> Lease | Refusal:
        if self._refuses:
            raise _unavailable() from error
        return self._share.try_reserve(scopes, cost)

    def _unwanted(self, name: str, scopes: Scopes, cost: Cost, answer: Any) -> None:
        """Undo what was taken for a caller that is gone."""
        if isinstance(answer, Unreachable):
            self._abandon(answer, name, scopes, cost)
            return
        taken, charges, _ = answer
        if taken:
            lease = self._lease(name, scopes, cost, charges, None)
            self.end(lease, undone=True, actual=0)

    def _abandon(self, error: Unreachable, name: str, scopes: Scopes, cost: Cost) -> None:
        """End a lease that may have been taken: nobody knows where it was charged, so what it
        reserved stays charged, and what it holds is let go."""
        if error.sent:
            charges = [UNKNOWN] * len(scopes.names)
            lease = self._lease(name, scopes, cost, charges, None)
            self.end(lease, undone=False, actual=cost.tokens)


def _unavailable() -> LimiterUnavailable:
    return LimiterUnavailable("The limits cannot be counted at the moment.")
