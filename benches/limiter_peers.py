"""The limiters that `bench_limiter` compares, each as a function that makes one decision."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import limits
import limits.storage
import limits.strategies
import pyrate_limiter as pyrate
import slowapi
import slowapi.errors
import throttled
from starlette.requests import Request
from starlette.responses import Response
from throttled import rate_limiter

from millstream import _core
from tests.reference import limiter as twin
from tests.reference.limiter_key import Quota as TwinQuota

HOUR_NS = 3_600_000_000_000

Decide = Callable[[], object]
Make = Callable[[int], Decide]
"""Makes a decider under a limit of so many requests per hour."""


def rust_take(limit: int) -> Decide:
    limiter, clock = _core.Limiter(), time.monotonic_ns
    quota = _core.Quota(rate=limit, period_ns=HOUR_NS, burst=limit)
    scopes = limiter.scopes([("key", quota)])
    return lambda: limiter.take(scopes, clock())


def rust_lease(limit: int) -> Decide:
    limiter, clock = _core.Limiter(), time.monotonic_ns
    quota = _core.Quota(rate=limit, period_ns=HOUR_NS, burst=limit)
    scopes = limiter.scopes([("key", quota)])

    def decide() -> None:
        lease = limiter.reserve(scopes, clock(), 100)
        if isinstance(lease, _core.Lease):
            limiter.settle(lease, 60, clock())

    return decide


def rust_two_scopes(limit: int) -> Decide:
    limiter, clock = _core.Limiter(), time.monotonic_ns
    quota = _core.Quota(
        rate=limit,
        period_ns=HOUR_NS,
        burst=limit,
        tokens=1 << 40,
        window_ns=HOUR_NS,
        concurrency=1_000,
        kibibytes=1 << 20,
    )
    scopes = limiter.scopes([("global", quota), ("model:chat", quota)])

    def decide() -> None:
        lease = limiter.reserve(scopes, clock(), 100, kibibytes=64)
        if isinstance(lease, _core.Lease):
            limiter.settle(lease, 60, clock())

    return decide


def twin_take(limit: int) -> Decide:
    limiter, clock = twin.Limiter(), time.monotonic_ns
    scopes = limiter.scopes([("key", TwinQuota(rate=limit, period_ns=HOUR_NS, burst=limit))])
    return lambda: limiter.take(scopes, clock())


def limits_strategy(strategy: type[limits.strategies.RateLimiter]) -> Make:
    def make(limit: int) -> Decide:
        limiter = strategy(limits.storage.MemoryStorage())
        item = limits.RateLimitItemPerHour(limit)
        return lambda: limiter.hit(item, "key")

    return make


def pyrate_state(algorithm: Callable[[], Any]) -> Make:
    def make(limit: int) -> Decide:
        rates = [pyrate.Rate(limit, pyrate.Duration.HOUR)]
        limiter = pyrate.Limiter(pyrate.StateBucket(rates, algorithm()))
        return lambda: limiter.try_acquire("key", blocking=False)

    return make


def pyrate_log(limit: int) -> Decide:
    bucket = pyrate.InMemoryBucket([pyrate.Rate(limit, pyrate.Duration.HOUR)])
    limiter = pyrate.Limiter(bucket)
    return lambda: limiter.try_acquire("key", blocking=False)


def throttled_type(using: throttled.RateLimiterType) -> Make:
    def make(limit: int) -> Decide:
        quota = rate_limiter.per_hour(limit, burst=limit)
        store = throttled.MemoryStore()
        limiter = throttled.Throttled(key="key", using=using.value, quota=quota, store=store)
        return limiter.limit

    return make


def slowapi_endpoint(strategy: str) -> Make:
    """An endpoint that does nothing, under the decorator by which an app limits it."""

    def make(limit: int) -> Decide:
        logging.getLogger("slowapi").setLevel(logging.CRITICAL)  # it logs every refusal
        limiter = slowapi.Limiter(key_func=lambda: "key", strategy=strategy)
        response = Response()

        @limiter.limit(f"{limit}/hour")
        def endpoint(request: Request) -> Response:
            return response

        request = Request({"type": "http", "method": "GET", "path": "/", "headers": []})

        def decide() -> None:
            request.state._rate_limiting_complete = False  # else it decides once per request
            with contextlib.suppress(slowapi.errors.RateLimitExceeded):
                endpoint(request)

        return decide

    return make


SUBJECTS: dict[str, Make] = {
    "millstream take": rust_take,
    "millstream reserve + settle": rust_lease,
    "millstream reserve + settle, 2 scopes × 4 dimensions": rust_two_scopes,
    "twin take": twin_take,
    "limits fixed window": limits_strategy(limits.strategies.FixedWindowRateLimiter),
    "limits sliding counter": limits_strategy(limits.strategies.SlidingWindowCounterRateLimiter),
    "limits moving window": limits_strategy(limits.strategies.MovingWindowRateLimiter),
    "slowapi fixed window": slowapi_endpoint("fixed-window"),
    "slowapi moving window": slowapi_endpoint("moving-window"),
    "pyrate-limiter GCRA": pyrate_state(pyrate.GCRA),
    "pyrate-limiter token bucket": pyrate_state(pyrate.TokenBucket),
    "pyrate-limiter log": pyrate_log,
    "throttled-py fixed window": throttled_type(throttled.RateLimiterType.FIXED_WINDOW),
    "throttled-py token bucket": throttled_type(throttled.RateLimiterType.TOKEN_BUCKET),
    "throttled-py GCRA": throttled_type(throttled.RateLimiterType.GCRA),
}


def keys_rust(names: Iterator[str]) -> object:
    limiter = _core.Limiter(max_keys=2_000_000)
    quota = _core.Quota(rate=1, burst=10, tokens=10, window_ns=HOUR_NS)
    for name in names:
        limiter.take(limiter.scopes([(name, quota)]), HOUR_NS, 1)
    return limiter


def keys_rust_bounded(names: Iterator[str]) -> object:
    limiter = _core.Limiter()
    quota = _core.Quota(rate=1, burst=10, tokens=10, window_ns=HOUR_NS)
    for name in names:
        limiter.take(limiter.scopes([(name, quota)]), HOUR_NS, 1)
    return limiter


def keys_limits(names: Iterator[str]) -> object:
    limiter = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
    item = limits.RateLimitItemPerHour(10)
    for name in names:
        limiter.hit(item, name)
    return limiter


def keys_throttled(names: Iterator[str]) -> object:
    store = throttled.MemoryStore(options={"MAX_SIZE": 2_000_000})
    limiter = throttled.Throttled(
        using="gcra", quota=rate_limiter.per_hour(10, burst=10), store=store
    )
    for name in names:
        limiter.limit(name)
    return limiter


def keys_pyrate(names: Iterator[str]) -> object:
    rates = [pyrate.Rate(10, pyrate.Duration.HOUR)]
    buckets = {}
    for name in names:
        buckets[name] = pyrate.StateBucket(rates, pyrate.GCRA())
        buckets[name].put(pyrate.RateItem(name, time.monotonic_ns() // 1_000_000))
    return buckets


KEY_FILLERS: dict[str, Callable[[Iterator[str]], object]] = {
    "millstream": keys_rust,
    "millstream, 100,000 keys at most": keys_rust_bounded,
    "limits fixed window": keys_limits,
    "throttled-py GCRA": keys_throttled,
    "pyrate-limiter GCRA": keys_pyrate,
}
