"""The limiters that `bench_limiter_valkey` compares, each as a coroutine that makes one decision.

All of them count under one key with one limit per hour on the same server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import limits
import limits.aio.storage
import limits.aio.strategies
import slowapi
import throttled.asyncio as throttled
from starlette.requests import Request

from millstream.admission import Cost, Lease, Limits, RequestRate, ScopedLimits, TokenWindow
from millstream.admission.valkey import ValkeyLimiter
from millstream.config.limiter import LimiterSettings

HOUR = 3600

Decide = Callable[[], Awaitable[object]]
Make = Callable[[str, int], Any]
"""Opens a decider on the server of that URL, under a limit of so many requests per hour."""


@asynccontextmanager
async def millstream(url: str, scopes: tuple[ScopedLimits, ...]) -> AsyncIterator[Decide]:
    limiter = ValkeyLimiter(LimiterSettings(kind="valkey", url=url))
    await limiter.start()

    async def decide() -> None:
        lease = await limiter.reserve(scopes, Cost(100, prompt_tokens=20))
        if isinstance(lease, Lease):
            lease.settle(60)

    try:
        yield decide
    finally:
        await limiter.close()


def one_dimension(url: str, limit: int) -> Any:
    rate = RequestRate(Fraction(limit, HOUR), limit)
    return millstream(url, (ScopedLimits("global", Limits(rate)),))


def two_scopes(url: str, limit: int) -> Any:
    whole = Limits(
        RequestRate(Fraction(limit, HOUR), limit), TokenWindow(1 << 40, HOUR * 1000), 1_000
    )
    return millstream(url, (ScopedLimits("global", whole), ScopedLimits("model:m", whole)))


def limits_strategy(strategy: type[limits.aio.strategies.RateLimiter]) -> Make:
    @asynccontextmanager
    async def make(url: str, limit: int) -> AsyncIterator[Decide]:
        storage = limits.aio.storage.RedisStorage(f"async+{url}", implementation="valkey")
        limiter = strategy(storage)
        item = limits.RateLimitItemPerHour(limit)
        yield lambda: limiter.hit(item, strategy.__name__)

    return make


def throttled_type(using: throttled.RateLimiterType) -> Make:
    @asynccontextmanager
    async def make(url: str, limit: int) -> AsyncIterator[Decide]:
        store = throttled.RedisStore(server=url.replace("valkey://", "redis://"))
        quota = throttled.rate_limiter.per_hour(limit, burst=limit)
        limiter = throttled.Throttled(key="key", using=using.value, quota=quota, store=store)
        yield limiter.limit

    return make


@asynccontextmanager
async def slowapi_limit(url: str, limit: int) -> AsyncIterator[Decide]:
    limiter = slowapi.Limiter(
        key_func=lambda: "key",
        application_limits=[f"{limit}/hour"],
        storage_uri=url.replace("valkey://", "redis://"),
    )
    request = Request({"type": "http", "path": "/", "method": "GET", "headers": []})

    async def decide() -> None:
        # As its middleware does: the loop waits for the answer.
        limiter._check_request_limit(request, None, True)

    yield decide


SUBJECTS: dict[str, Make] = {
    "millstream reserve + settle": one_dimension,
    "millstream reserve + settle, 2 scopes × 3 dimensions": two_scopes,
    "limits fixed window": limits_strategy(limits.aio.strategies.FixedWindowRateLimiter),
    "limits moving window": limits_strategy(limits.aio.strategies.MovingWindowRateLimiter),
    "limits sliding counter": limits_strategy(
        limits.aio.strategies.SlidingWindowCounterRateLimiter
    ),
    "throttled-py fixed window": throttled_type(throttled.RateLimiterType.FIXED_WINDOW),
    "throttled-py token bucket": throttled_type(throttled.RateLimiterType.TOKEN_BUCKET),
    "throttled-py GCRA": throttled_type(throttled.RateLimiterType.GCRA),
    "slowapi fixed window": slowapi_limit,
}

PEERS = tuple(name for name in SUBJECTS if not name.startswith("millstream"))
