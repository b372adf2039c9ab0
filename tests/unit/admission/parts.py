"""A clock that the test turns, and what the tests of the limits ask again and again."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from millstream.admission import (
    Cost,
    Lease,
    LimitBook,
    MemoryLimiter,
    Refusal,
    ScopedLimits,
    Snapshot,
)
from tests.clock import SECOND


def admitted(
    limiter: MemoryLimiter,
    scopes: tuple[ScopedLimits, ...],
    tokens: int,
    prompt_tokens: int = 0,
    kibibytes: int = 0,
) -> Lease:
    lease = limiter.try_reserve(scopes, Cost(tokens, 1, prompt_tokens, kibibytes))
    assert isinstance(lease, Lease)
    return lease


def refused(limiter: MemoryLimiter, scopes: tuple[ScopedLimits, ...], tokens: int) -> Refusal:
    refusal = limiter.try_reserve(scopes, Cost(tokens))
    assert isinstance(refusal, Refusal)
    return refusal


def left(snapshot: Snapshot) -> tuple[int, ...]:
    """What is left of requests, tokens, places and KiB, of those that are limited."""
    meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency, snapshot.bytes)
    return tuple(meter.remaining for meter in meters if meter is not None)


def left_for(limiter: MemoryLimiter, book: LimitBook, tenant: str, model: str) -> tuple[int, ...]:
    return left(limiter.try_peek(book.scopes(tenant, model)))


@dataclass(order=True)
class _Call:
    when_ns: int
    number: int
    callback: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class TurnedClock:
    """A clock and its scheduler: time passes in `turn` alone, and every call comes at its own."""

    def __init__(self, now_ns: int = SECOND) -> None:
        self.now_ns = now_ns
        self._calls: list[_Call] = []
        self._numbers = itertools.count()

    def __call__(self) -> int:
        return self.now_ns

    def call_at(self, when_ns: int, callback: Callable[[], None]) -> _Call:
        call = _Call(when_ns, next(self._numbers), callback)
        heapq.heappush(self._calls, call)
        return call

    async def turn(self, seconds: float) -> None:
        """Let this much time pass, in steps from call to call."""
        end_ns = self.now_ns + round(seconds * SECOND)
        await settle()
        while self._calls and self._calls[0].when_ns <= end_ns:
            call = heapq.heappop(self._calls)
            if not call.cancelled:
                self.now_ns = max(self.now_ns, call.when_ns)
                call.callback()
                await settle()
        self.now_ns = end_ns

    @property
    def pending(self) -> int:
        """Calls that are to come."""
        return sum(not call.cancelled for call in self._calls)


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)
