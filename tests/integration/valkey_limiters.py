"""Limiters on one server: each of them is what a worker would have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

from millstream.admission import (
    BytesInFlight,
    Cost,
    Lease,
    Limits,
    Refusal,
    RequestRate,
    ScopedLimits,
    Snapshot,
    TokenWindow,
)
from millstream.admission.valkey import ValkeyLimiter
from millstream.config.limiter import LimiterSettings
from tests.waiting import HANG_SECONDS

HOUR_MS = 3_600_000

GENEROUS = ScopedLimits(
    "global",
    Limits(RequestRate(Fraction(1, 3600), 100), TokenWindow(10_000, HOUR_MS), 50),
)
"""Gives nothing back while a test runs."""

SMALL = ScopedLimits(
    "tenant:t",
    Limits(
        RequestRate(Fraction(1, 3600), 10),
        TokenWindow(100, HOUR_MS),
        3,
        BytesInFlight(10 * 1024),
    ),
)


class Seen:
    """What the limiter told of itself."""

    def __init__(self) -> None:
        self.ups: list[bool] = []

    def limiter_up(self, up: bool) -> None:
        self.ups.append(up)


@asynccontextmanager
async def limiter_on(
    url: str,
    *,
    workers: int = 1,
    seen: Seen | None = None,
    call_seconds: float = 30.0,
    reading: Callable[[], int] | None = None,
    **settings: Any,
) -> AsyncIterator[ValkeyLimiter]:
    """A limiter, started; patient, so that a busy machine is not taken for a silent server."""
    limiter = ValkeyLimiter(
        LimiterSettings(kind="valkey", url=url, **settings),
        workers=workers,
        observer=seen,
        call_seconds=call_seconds,
        reading=reading,
    )
    await limiter.start()
    try:
        yield limiter
    finally:
        await limiter.close()


async def admitted(
    limiter: ValkeyLimiter, *scopes: ScopedLimits, tokens: int = 10, prompt: int = 0, kib: int = 0
) -> Lease:
    lease = await limiter.reserve(scopes, Cost(tokens, 1, prompt, kib))
    assert isinstance(lease, Lease), lease
    return lease


async def refused(
    limiter: ValkeyLimiter, *scopes: ScopedLimits, tokens: int = 10, kib: int = 0
) -> Refusal:
    refusal = await limiter.reserve(scopes, Cost(tokens, kibibytes=kib))
    assert isinstance(refusal, Refusal), refusal
    return refusal


def left(snapshot: Snapshot) -> tuple[int | None, ...]:
    """What is left of requests, tokens and places; None where nothing is limited."""
    meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency)
    return tuple(None if meter is None else meter.remaining for meter in meters)


async def left_in(limiter: ValkeyLimiter, *scopes: ScopedLimits) -> tuple[int | None, ...]:
    return left(await limiter.peek(scopes))


async def until_left(limiter: ValkeyLimiter, *scopes: ScopedLimits, places: int) -> None:
    """Return when so many leases can be opened, which nobody tells."""
    async with asyncio.timeout(HANG_SECONDS):
        while (await left_in(limiter, *scopes))[2] != places:  # noqa: ASYNC110 - as said
            await asyncio.sleep(0.01)
