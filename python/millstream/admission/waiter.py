"""A request that waits for its turn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from millstream.admission.meters import HELD

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Sequence

    from millstream.admission.demand import Demand
    from millstream.admission.leases import Lease, Refusal
    from millstream.admission.policies import QueuePolicy

SOONEST_NS = 1_000_000
"""Nobody is tried again earlier than after this, whatever a limiter says."""

Key = tuple[str, str]
"""Tenant and model."""

_WIDTHS = {"global": 3, "model": 2, "tenant": 1}
"""How many others a scope limits: the higher, the more; that of a tenant's model has 0."""


class Waiter:
    """What is known of one request that waits; ``future`` gets its leases or its last refusal.

    ``keys`` are those of its tenants and models whose scopes have refused it: only there it stands
    before others.
    """

    __slots__ = (
        "arrival",
        "crowded_out",
        "deadline_ns",
        "demands",
        "future",
        "holds",
        "keys",
        "policy",
        "refusal",
        "refusals",
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
        self.refusals: dict[str, tuple[Refusal, int]] = {}
        """The last one of each scope, and when to try again for it."""
        self.holds: frozenset[str] = frozenset()
        """Scopes that take nobody after it."""
        self.crowded_out = False
        """Its last refusal is one of a scope where no more may wait."""
        self.refusal: Refusal
        self.policy: QueuePolicy
        self.deadline_ns = self.retry_ns = since_ns

    def refuse(self, refusal: Refusal, policy: QueuePolicy, now_ns: int) -> None:
        """It could not be admitted at this moment, and waits under this policy.

        It holds the scope that has refused it, and of those before what is no wider: who waits for
        a limit of his own must not hold up others, and all that is narrower is his when the wider
        one has room. So nobody passes him for ever.
        """
        self.refusal = refusal
        self.policy = policy
        self.retry_ns = now_ns + max(refusal.retry_after_ns, SOONEST_NS)
        self.deadline_ns = self.since_ns + policy.deadline_ns
        self.refusals[refusal.scope] = (refusal, self.retry_ns)
        width = _width(refusal)
        self.holds = frozenset(
            scope for scope, (earlier, _) in self.refusals.items() if _width(earlier) <= width
        )

    def refusal_at(self, now_ns: int, scopes: Collection[str] = ()) -> Refusal:
        """The last refusal, if need be by one of ``scopes``, with the wait that is left of it."""
        held = [scope for scope in self.holds if scope in scopes]
        scope = self.refusal.scope if self.refusal.scope in held or not held else held[0]
        refusal, retry_ns = self.refusals[scope]
        if not is_known(refusal):
            return refusal
        return replace(refusal, retry_after_ns=max(retry_ns - now_ns, 1))

    def urgency_at(self, now_ns: int, aging_ns: int) -> int:
        """The number that counts by now: one less for each ``aging_ns`` of waiting."""
        return max(0, self.urgency - (now_ns - self.since_ns) // aging_ns)


def keys_of(demands: Sequence[Demand]) -> tuple[Key, ...]:
    """Each tenant and model that is asked for, once."""
    return tuple(dict.fromkeys((demand.tenant, demand.model) for demand in demands))


def is_known(refusal: Refusal) -> bool:
    """Whether the wait is more than a guess: nobody knows when a stream ends."""
    return refusal.dimension not in HELD


def _width(refusal: Refusal) -> int:
    return _WIDTHS.get(refusal.scope_kind, 0)
