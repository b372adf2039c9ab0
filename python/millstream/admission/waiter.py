"""A request that waits for its turn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from millstream.admission.meters import HELD

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from millstream.admission.demand import Demand
    from millstream.admission.leases import Lease, Refusal
    from millstream.admission.policies import QueuePolicy

SOONEST_NS = 1_000_000
"""Nobody is tried again earlier than after this, whatever a limiter says."""

Key = tuple[str, str]
"""Tenant and model."""


class Waiter:
    """What is known of one request that waits; ``future`` gets its leases or its last refusal.

    ``keys`` are those of its tenants and models whose scopes have refused it: only there it stands
    before others.
    """

    __slots__ = (
        "arrival",
        "deadline_ns",
        "demands",
        "future",
        "keys",
        "policy",
        "refusal",
        "refused_by",
        "retry_ns",
        "since_ns",
        "urgency",
    )

    def __init__(
        self,
        arrival: int,
        demands: Sequence[Demand],
        urgency: int,
        since_ns: int,
        future: asyncio.Future[list[Lease] | Refusal],
    ) -> None:
        self.arrival = arrival
        self.demands = demands
        self.urgency = urgency
        self.since_ns = since_ns
        self.future = future
        self.keys: tuple[Key, ...] = ()
        self.refused_by: set[str] = set()
        self.refusal: Refusal
        self.policy: QueuePolicy
        self.deadline_ns = self.retry_ns = since_ns

    def refuse(self, refusal: Refusal, policy: QueuePolicy, now_ns: int) -> None:
        """It could not be admitted at this moment, and waits under this policy."""
        self.refusal = refusal
        self.policy = policy
        self.refused_by.add(refusal.scope)
        self.retry_ns = now_ns + max(refusal.retry_after_ns, SOONEST_NS)
        self.deadline_ns = self.since_ns + policy.deadline_ns

    def refusal_at(self, now_ns: int) -> Refusal:
        """The last refusal, with the wait that is left of it."""
        if not is_known(self.refusal):
            return self.refusal
        return replace(self.refusal, retry_after_ns=max(self.retry_ns - now_ns, 1))

    def urgency_at(self, now_ns: int, aging_ns: int) -> int:
        """The number that counts by now: one less for each ``aging_ns`` of waiting."""
        return max(0, self.urgency - (now_ns - self.since_ns) // aging_ns)


def keys_of(demands: Sequence[Demand]) -> tuple[Key, ...]:
    """Each tenant and model that is asked for, once."""
    return tuple(dict.fromkeys((demand.tenant, demand.model) for demand in demands))


def is_known(refusal: Refusal) -> bool:
    """Whether the wait is more than a guess."""
    return refusal.dimension not in HELD
