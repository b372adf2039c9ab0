"""Limits kept in this process: right for one worker only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from millstream import _core
from millstream.admission.costs import check_cost, impossible
from millstream.admission.leases import Lease, Refusal
from millstream.admission.meters import HELD, NOTHING_LIMITED, Snapshot
from millstream.admission.unlimited import UnlimitedLease

if TYPE_CHECKING:
    from millstream.admission.base import Cost, ScopedLimits
    from millstream.admission.policies import Limits

OPEN_RETRY_NS = 1_000_000_000
"""What a client is told to wait for a stream of somebody else to end."""

LEASE_TTL_NS = 900_000_000_000
"""After this an owner that has not ended or renewed its lease is taken for gone."""

MOST_RESOLVED = 4096
"""Sets of scopes, and scopes, that are remembered; the oldest goes first."""


class _Resolved(NamedTuple):
    scopes: tuple[ScopedLimits, ...]
    handle: _core.Scopes


class MemoryLease(Lease):
    """A lease of the counters in this process."""

    __slots__ = ("_lease", "_limiter", "_resolved", "_snapshot")

    def __init__(
        self, limiter: MemoryLimiter, lease: _core.Lease, resolved: _Resolved, now_ns: int
    ) -> None:
        self._limiter = limiter
        self._lease = lease
        self._resolved = resolved
        self._snapshot = limiter.counters.peek(resolved.handle, now_ns)

    @property
    def tokens(self) -> int:
        """Tokens reserved in all."""
        return self._lease.tokens

    @property
    def snapshot(self) -> Snapshot:
        """What was left right after the reservation."""
        return self._snapshot

    @property
    def limits(self) -> tuple[ScopedLimits, ...]:
        """Those that it was reserved under."""
        return self._resolved.scopes

    def settle(self, actual: int) -> bool:
        """Charge the tokens that were really used, and the request."""
        return self._limiter.counters.settle(self._lease, actual, self._limiter.clock())

    def cancel(self, emitted: int) -> bool:
        """Charge the prompt and the tokens emitted until the stream was given up."""
        return self._limiter.counters.cancel(self._lease, emitted, self._limiter.clock())

    def undo(self) -> bool:
        """Charge nothing, not even the request: for a stream that never came to be."""
        return self._limiter.counters.undo(self._lease, self._limiter.clock())

    def renew(self) -> bool:
        """Keep a long stream's lease from expiring; False if it has ended."""
        return self._limiter.counters.renew(self._lease, self._limiter.clock())

    def remaining_tokens(self) -> int | None:
        """Tokens left in the tightest scope at this moment; None is no limit."""
        return self._limiter.tokens_left(self._resolved.scopes)


class MemoryLimiter:
    """Counters in this process: several scopes decided at once, all or nothing.

    ``clock`` gives nanoseconds that never step back. May be used from several threads.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        lease_ttl_ns: int = LEASE_TTL_NS,
    ) -> None:
        self.counters = _core.Limiter(lease_ttl_ns=lease_ttl_ns)
        self.clock = clock
        # By identity: comparing the scopes' limits would cost more than the decision itself. What
        # is remembered is held, so that no other tuple can have its identity meanwhile.
        self._resolving = threading.Lock()
        self._resolved: dict[int, _Resolved] = {}
        self._in_force: dict[str, Limits] = {}

    async def start(self) -> None:
        """Nothing to reach."""

    async def close(self) -> None:
        """Nothing is on its way."""

    async def reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        """Take ``cost`` from every scope, or nothing; without scopes nothing is limited.

        Raises CostExceedsLimit if no waiting could help, ValueError for a cost outside 1..2**40,
        ConfigError for limits out of range.
        """
        return self.try_reserve(scopes, cost)

    def try_reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        """The same for callers that cannot wait: nothing here ever does."""
        check_cost(cost)
        if not scopes:
            return UnlimitedLease(cost.tokens)
        resolved = self._resolve(scopes)
        now_ns = self.clock()
        decision = self.counters.reserve(
            resolved.handle,
            now_ns,
            cost.tokens,
            cost.requests,
            cost.prompt_tokens,
            cost.kibibytes,
        )
        if isinstance(decision, _core.Lease):
            return MemoryLease(self, decision, resolved, now_ns)
        if decision.permanent:
            raise impossible(scopes, decision.scope, decision.dimension, cost)
        wait_ns = decision.wait_ns
        if decision.dimension in HELD:
            wait_ns = max(wait_ns, OPEN_RETRY_NS)
        snapshot = self.counters.peek(resolved.handle, now_ns)
        return Refusal(decision.scope, decision.dimension, wait_ns, snapshot, scopes)

    async def peek(self, scopes: tuple[ScopedLimits, ...]) -> Snapshot:
        """What is left in the tightest scope of each dimension; takes nothing."""
        return self.try_peek(scopes)

    def try_peek(self, scopes: tuple[ScopedLimits, ...]) -> Snapshot:
        """The same for callers that cannot wait."""
        if not scopes:
            return NOTHING_LIMITED
        return self.counters.peek(self._resolve(scopes).handle, self.clock())

    def tokens_left(self, scopes: tuple[ScopedLimits, ...]) -> int | None:
        """Tokens left in the tightest of these scopes under the limits they have by now."""
        now_held = tuple(
            scoped._replace(limits=self._in_force.get(scoped.scope, scoped.limits))
            for scoped in scopes
        )
        meter = self.try_peek(scopes if now_held == scopes else now_held).tokens
        return None if meter is None else meter.remaining

    def _resolve(self, scopes: tuple[ScopedLimits, ...]) -> _Resolved:
        known = self._resolved.get(id(scopes))
        if known is not None:
            return known
        handle = self.counters.scopes([(scope, limits.quota()) for scope, limits in scopes])
        known = _Resolved(scopes, handle)
        with self._resolving:
            self._resolved[id(scopes)] = known
            _bound(self._resolved)
            for scope, limits in scopes:
                self._in_force.pop(scope, None)  # the last that is used is the last to go
                self._in_force[scope] = limits
            _bound(self._in_force)
        return known


def _bound(remembered: dict[int, _Resolved] | dict[str, Limits]) -> None:
    while len(remembered) > MOST_RESOLVED:
        del remembered[next(iter(remembered))]  # type: ignore[arg-type]
