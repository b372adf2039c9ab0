"""This worker's share of every limit, for the time when Valkey is away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from millstream.admission.base import ScopedLimits
from millstream.admission.costs import amounts, capacities, impossible
from millstream.admission.leases import Refusal
from millstream.admission.memory import LEASE_TTL_NS, MemoryLimiter
from millstream.admission.policies import Limits

if TYPE_CHECKING:
    from millstream.admission.base import Cost
    from millstream.admission.leases import Lease
    from millstream.admission.meters import Snapshot

RETRY_NS = 1_000_000_000
"""What a client is told to wait for a limit of which this worker's share is too small."""

_MOST_KNOWN = 4096


class _Shared(NamedTuple):
    whole: tuple[ScopedLimits, ...]
    share: tuple[ScopedLimits, ...]


class ShareLimiter:
    """Grants one part in ``parts`` of each limit, rounded down, counted in memory.

    A limit of which no part is left refuses, as does one whose part is smaller than a cost that
    the whole would grant: both are back when the shared counters are.
    """

    def __init__(
        self, parts: int, *, clock: Callable[[], int], lease_ttl_ns: int = LEASE_TTL_NS
    ) -> None:
        self._parts = parts
        self._memory = MemoryLimiter(clock=clock, lease_ttl_ns=lease_ttl_ns)
        self._known: dict[int, _Shared] = {}

    def try_reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        """As `MemoryLimiter.try_reserve`."""
        share, asked = self._shared(scopes), amounts(cost)
        for whole, part in zip(scopes, share, strict=True):
            granted = capacities(part.limits)
            for dimension, capacity in capacities(whole.limits).items():
                if asked[dimension] > capacity:
                    raise impossible(scopes, whole.scope, dimension, cost)
                if asked[dimension] > granted[dimension]:
                    left = self.try_peek(scopes)
                    return Refusal(whole.scope, dimension, RETRY_NS, left, share)
        return self._memory.try_reserve(share, cost)

    def try_peek(self, scopes: tuple[ScopedLimits, ...]) -> Snapshot:
        """As `MemoryLimiter.try_peek`."""
        return self._memory.try_peek(self._shared(scopes))

    def _shared(self, scopes: tuple[ScopedLimits, ...]) -> tuple[ScopedLimits, ...]:
        known = self._known.get(id(scopes))
        if known is None or known.whole is not scopes:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            share = tuple(
                ScopedLimits(member.scope, share_of(member.limits, self._parts))
                for member in scopes
            )
            known = self._known[id(scopes)] = _Shared(scopes, share)
        return known.share


def share_of(limits: Limits, parts: int) -> Limits:
    """One part in ``parts`` of each limit, rounded down; rates are divided exactly."""
    requests, tokens, in_flight = limits.requests, limits.tokens, limits.bytes_in_flight
    return replace(
        limits,
        requests=requests
        and replace(requests, per_second=requests.fraction / parts, burst=requests.burst // parts),
        tokens=tokens and replace(tokens, limit=tokens.limit // parts),
        concurrency=None if limits.concurrency is None else limits.concurrency // parts,
        bytes_in_flight=in_flight and replace(in_flight, limit=in_flight.limit // parts),
    )
