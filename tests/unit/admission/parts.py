"""A clock that the test turns, and what the tests of the limits ask again and again."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.admission import (
    Cost,
    Lease,
    LimitBook,
    MemoryLimiter,
    Refusal,
    ScopedLimits,
    Snapshot,
)

SECOND = 1_000_000_000


@dataclass
class Clock:
    """Nanoseconds that move when told to."""

    now_ns: int = SECOND

    def __call__(self) -> int:
        return self.now_ns


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
    """What is left of requests, tokens and places, of those that are limited."""
    meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency)
    return tuple(meter.remaining for meter in meters if meter is not None)


def left_for(limiter: MemoryLimiter, book: LimitBook, tenant: str, model: str) -> tuple[int, ...]:
    return left(limiter.try_peek(book.scopes(tenant, model)))
