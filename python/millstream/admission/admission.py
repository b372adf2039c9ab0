"""The one facade over the limits that routes and orchestrator use."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from millstream.admission.adapting import reserve_adapted
from millstream.admission.costs import check_possible
from millstream.admission.held import HeldLease
from millstream.admission.leases import Lease, Refusal
from millstream.admission.queue import AGING_NS, Queue
from millstream.admission.scheduler import LoopScheduler, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from millstream.admission.base import Limiter, ScopedLimits
    from millstream.admission.book import LimitBook
    from millstream.admission.demand import Demand
    from millstream.admission.meters import Snapshot
    from millstream.admission.policies import QueuePolicy
    from millstream.admission.queue_observer import QueueObserver


class Admission:
    """Decides over requests by the limits of a book, and lets them wait where those allow it.

    Lives on one event loop, as do the leases that it gives. ``clock`` gives nanoseconds that never
    step back, ``scheduler`` calls back in its time. Where others hold leases of the same limiter,
    those who wait look about every ``poll_ns`` whether one has ended; their urgency rises by a step
    in each ``aging_ns``.
    """

    def __init__(
        self,
        limiter: Limiter,
        book: LimitBook,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        scheduler: Scheduler | None = None,
        poll_ns: int | None = None,
        aging_ns: int = AGING_NS,
        random: Random | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        self.limiter = limiter
        self._book = book
        self._queue = Queue(
            self._attempt,
            scopes_of=self._scopes_of,
            policy_of=self._policy_of,
            clock=clock,
            scheduler=scheduler or LoopScheduler(clock),
            poll_ns=poll_ns,
            aging_ns=aging_ns,
            random=random,
            observer=observer,
        )

    async def admit(self, demands: Sequence[Demand], *, urgency: int = 3) -> list[Lease] | Refusal:
        """A lease for each demand, or the refusal of one with nothing taken.

        Waits where the limits that refuse have a queue, the lower ``urgency`` first (RFC 9218);
        whoever cancels the wait takes nothing. A demand with ``least_tokens`` may get a lease of
        fewer ``tokens`` than it names. Raises `CostExceedsLimit` where no waiting would
        help, `LimiterUnavailable`, and what `turn_away` says.
        """
        if self._queue:  # else the limiter is asked at once
            check_possible(self._book, demands)
        admitted = await self._queue.admit(demands, urgency)
        if isinstance(admitted, Refusal):
            return await self._own(admitted, demands)
        return [HeldLease(lease, self._queue.wake) for lease in admitted]

    async def peek(self, tenant: str, model: str) -> Snapshot:
        """What is left for this tenant's use of this model; takes nothing."""
        return await self.limiter.peek(self.scopes(tenant, model))

    def scopes(self, tenant: str, model: str) -> tuple[ScopedLimits, ...]:
        """The scopes that limit this tenant's use of this model."""
        return self._book.scopes(tenant, model)

    def replace(self, book: LimitBook) -> None:
        """Go on under other limits: what is in use stays in use, and who waits waits under them."""
        self._book = book
        self._queue.wake()

    def turn_away(self, error: Exception) -> None:
        """Whoever waits fails with this, at once."""
        self._queue.turn_away(error)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)

    def bytes_per_stream(self, tenant: str, model: str) -> int | None:
        """The most that one stream may hold for its readers; None is no limit."""
        limits = [scoped.limits.bytes_in_flight for scoped in self._book.scopes(tenant, model)]
        caps = [min(bound.per_stream, bound.limit) for bound in limits if bound is not None]
        return min(caps, default=None)

    def longest_wait_seconds(self, demands: Sequence[Demand]) -> float:
        """How long `admit` may wait at most."""
        queues = [
            scoped.limits.queue
            for demand in demands
            for scoped in self._book.scopes(demand.tenant, demand.model)
        ]
        return max((queue.deadline_seconds for queue in queues if queue is not None), default=0.0)

    async def _own(self, refusal: Refusal, demands: Sequence[Demand]) -> Refusal:
        """The refusal with what is left for these demands, if it is that of somebody ahead."""
        scopes = [self._book.scopes(demand.tenant, demand.model) for demand in demands]
        if any(refusal.limits is own for own in scopes):
            return refusal
        named = (own for own in scopes if refusal.scope in dict(own))
        limits = next(named, scopes[0])
        return replace(refusal, snapshot=await self.limiter.peek(limits), limits=limits)

    async def _attempt(self, demands: Sequence[Demand]) -> list[Lease] | Refusal:
        if len(demands) > 1:  # a single one is told by the limiter
            check_possible(self._book, demands)
        return await reserve_adapted(self.limiter, self._book, demands)

    def _scopes_of(self, demands: Sequence[Demand]) -> frozenset[str]:
        return frozenset(
            scoped.scope
            for demand in demands
            for scoped in self._book.scopes(demand.tenant, demand.model)
        )

    def _policy_of(self, demands: Sequence[Demand], scope: str) -> QueuePolicy | None:
        for demand in demands:
            for scoped in self._book.scopes(demand.tenant, demand.model):
                if scoped.scope == scope:
                    return scoped.limits.queue
        return None
