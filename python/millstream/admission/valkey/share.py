"""This worker's share of every limit, for the time when Valkey is away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from millstream.admission.base import ScopedLimits
from millstream.admission.costs import impossible
from millstream.admission.leases import Refusal
from millstream.admission.memory import LEASE_TTL_NS, MemoryLimiter
from millstream.admission.policies import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from millstream.admission.base import Cost
    from millstream.admission.leases import Dimension, Lease, Snapshot

RETRY_NS = 1_000_000_000
"""What a client is told to wait for a limit of which this worker's share is too small."""

_MOST_KNOWN = 4096
_KIBIBYTE = 1024


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
        share = self._shared(scopes)
        for whole, part in zip(scopes, share, strict=True):
            for dimension, amount, capacity, granted in _capacities(whole, part, cost):
                if amount > capacity:
                    raise impossible(scopes, whole.scope, dimension, cost)
                if amount > granted:
                    return Refusal(whole.scope, dimension, RETRY_NS, self.try_peek(scopes))
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


def _capacities(
    whole: ScopedLimits, part: ScopedLimits, cost: Cost
) -> Iterator[tuple[Dimension, int, int, int]]:
    """Of each limited dimension: what is asked for, and what the whole and the part hold."""
    for dimension, amount in (
        ("requests", cost.requests),
        ("tokens", cost.tokens),
        ("concurrency", 1),
        ("bytes", cost.kibibytes),
    ):
        of_whole, of_part = (_capacity(member.limits, dimension) for member in (whole, part))
        if of_whole is not None and of_part is not None:
            yield dimension, amount, of_whole, of_part  # type: ignore[misc]


def _capacity(limits: Limits, dimension: str) -> int | None:
    if dimension == "requests":
        requests = limits.requests
        return requests and (requests.burst if requests.fraction else 0)  # type: ignore[return-value]
    if dimension == "tokens":
        return limits.tokens and limits.tokens.limit  # type: ignore[return-value]
    if dimension == "concurrency":
        return limits.concurrency
    in_flight = limits.bytes_in_flight
    return in_flight and in_flight.limit // _KIBIBYTE  # type: ignore[return-value]
