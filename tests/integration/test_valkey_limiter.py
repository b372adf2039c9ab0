"""Limits counted by a real Valkey: taken, given back, and lost by nobody."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import pytest

from millstream.admission import (
    Admission,
    Cost,
    Demand,
    Lease,
    LimitBook,
    Limits,
    Refusal,
    RequestRate,
    ScopedLimits,
    TokenWindow,
)
from millstream.admission.valkey import ValkeyLimiter
from millstream.admission.valkey.calls import SPARE_MS
from millstream.errors import ConfigError, CostExceedsLimit
from tests.integration.valkey_limiters import (
    GENEROUS,
    SMALL,
    admitted,
    left,
    left_in,
    limiter_on,
    refused,
    until_left,
)
from tests.integration.valkey_server import ValkeyServer
from tests.waiting import until_true

UNTOUCHED = (10, 100, 3)


@pytest.fixture
async def limiter(valkey: ValkeyServer) -> AsyncIterator[ValkeyLimiter]:
    async with limiter_on(valkey.url) as limiter:
        yield limiter


async def test_a_lease_takes_from_every_scope_and_its_snapshot_is_of_the_tightest(
    limiter: ValkeyLimiter,
) -> None:
    lease = await admitted(limiter, GENEROUS, SMALL, tokens=30, kib=4)
    meters = lease.snapshot.requests, lease.snapshot.tokens, lease.snapshot.concurrency
    assert [meter and (meter.scope, meter.limit, meter.remaining) for meter in meters] == [
        ("tenant:t", 10, 9),
        ("tenant:t", 100, 70),
        ("tenant:t", 3, 2),
    ]
    assert await left_in(limiter, GENEROUS) == (99, 9970, 49)


# aoai-simulated-api#51, milvus#25597, envoy ratelimit#440: what had been taken stayed taken.
@pytest.mark.parametrize(
    ("tokens", "kib", "dimension"), [(90, 0, "tokens"), (10, 9, "bytes"), (10, 1, "concurrency")]
)
async def test_a_scope_that_refuses_costs_the_others_nothing(
    limiter: ValkeyLimiter, tokens: int, kib: int, dimension: str
) -> None:
    held = [await admitted(limiter, SMALL, tokens=10, kib=3) for _ in range(2)]
    if dimension == "concurrency":
        held.append(await admitted(limiter, SMALL, tokens=10))
    refusal = await refused(limiter, GENEROUS, SMALL, tokens=tokens, kib=kib)
    assert (refusal.scope, refusal.dimension) == ("tenant:t", dimension)
    assert refusal.retry_after_ns >= 1_000_000_000
    assert await left_in(limiter, GENEROUS) == (100, 10_000, 50)


async def test_the_first_ending_counts(limiter: ValkeyLimiter) -> None:
    lease = await admitted(limiter, SMALL, tokens=50, prompt=5)
    assert lease.renew()
    assert lease.cancel(7)
    assert not lease.settle(50)
    assert not lease.undo()
    assert not lease.renew()
    assert await left_in(limiter, SMALL) == (9, 88, 3)


async def test_what_was_used_beyond_the_reservation_is_owed(limiter: ValkeyLimiter) -> None:
    lease = await admitted(limiter, SMALL, tokens=50)
    assert lease.settle(170)
    assert await left_in(limiter, SMALL) == (9, 0, 3)
    assert (await refused(limiter, SMALL, tokens=1)).dimension == "tokens"


async def test_what_is_left_after_a_lease_is_told_without_asking(limiter: ValkeyLimiter) -> None:
    lease = await admitted(limiter, GENEROUS, SMALL, tokens=50)
    assert lease.remaining_tokens() == 50
    lease.settle(20)
    assert lease.remaining_tokens() == 80
    owing = await admitted(limiter, SMALL, tokens=50)
    owing.settle(200)
    assert owing.remaining_tokens() == 0
    unlimited = await admitted(limiter, ScopedLimits("global", Limits(concurrency=5)))
    assert unlimited.remaining_tokens() is None


async def test_branches_before_a_refused_one_are_undone_before_the_next_decision(
    limiter: ValkeyLimiter,
) -> None:
    admission = Admission(limiter, LimitBook(SMALL.limits), clock=lambda: 0)
    held = await admitted(limiter, ScopedLimits("global", SMALL.limits), tokens=40)
    for _ in range(5):
        refusal = await admission.admit([Demand("t", "m", 40)] * 2)
        assert isinstance(refusal, Refusal)
        assert left(await admission.peek("t", "m")) == (9, 60, 2)
    held.undo()
    leases = await admission.admit([Demand("t", "m", 50)] * 2)
    assert isinstance(leases, list)


@pytest.mark.parametrize("turns", range(8))
async def test_a_caller_that_is_gone_takes_nothing(limiter: ValkeyLimiter, turns: int) -> None:
    for _ in range(10):
        asking = asyncio.ensure_future(limiter.reserve((SMALL,), Cost(20, kibibytes=4)))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            lease = await asking  # it had been faster
            assert isinstance(lease, Lease)
            lease.undo()
        assert await left_in(limiter, SMALL) == UNTOUCHED


async def test_an_answer_that_comes_with_the_cancellation_is_undone(
    limiter: ValkeyLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = limiter._errands.ask

    def cancelling(*args: object, **more: object) -> object:
        answer = ask(*args, **more)  # type: ignore[arg-type]
        answer.add_done_callback(lambda _: asking.cancel())
        return answer

    monkeypatch.setattr(limiter._errands, "ask", cancelling)
    asking = asyncio.ensure_future(limiter.reserve((SMALL,), Cost(20)))
    with pytest.raises(asyncio.CancelledError):
        await asking
    monkeypatch.undo()
    assert await left_in(limiter, SMALL) == UNTOUCHED


# effect-smol#2328: a server that had been restarted did not know the script any more.
async def test_a_server_that_has_forgotten_the_script_is_told_again(
    limiter: ValkeyLimiter, valkey: ValkeyServer
) -> None:
    lease = await admitted(limiter, SMALL)
    valkey.client.script_flush()
    others = await asyncio.gather(*(admitted(limiter, SMALL) for _ in range(2)))
    valkey.client.script_flush()
    for held in (lease, *others):
        held.settle(10)
    assert await left_in(limiter, SMALL) == (7, 70, 3)


async def test_counters_that_were_flushed_begin_anew_and_old_leases_do_no_harm(
    limiter: ValkeyLimiter, valkey: ValkeyServer
) -> None:
    lease = await admitted(limiter, SMALL, tokens=90)
    valkey.client.flushall()
    await admitted(limiter, SMALL, tokens=90)
    lease.settle(0)
    assert await left_in(limiter, SMALL) == (9, 10, 2)
    await limiter._renewals.renew()
    assert not lease.renew()


async def test_a_lost_connection_is_opened_again_and_nothing_is_charged_twice(
    limiter: ValkeyLimiter, valkey: ValkeyServer
) -> None:
    for taken in range(1, 4):
        valkey.client.client_kill_filter(_type="normal", skipme=True)
        await admitted(limiter, SMALL)
        assert await left_in(limiter, SMALL) == (10 - taken, 100 - 10 * taken, 3 - taken)


async def test_namespaces_do_not_mix(limiter: ValkeyLimiter, valkey: ValkeyServer) -> None:
    async with limiter_on(valkey.url, namespace="other") as other:
        await admitted(limiter, SMALL, tokens=100)
        assert await left_in(other, SMALL) == UNTOUCHED
        await admitted(other, SMALL, tokens=100)


async def test_instances_of_a_namespace_share(limiter: ValkeyLimiter, valkey: ValkeyServer) -> None:
    async with limiter_on(valkey.url) as other:
        await admitted(limiter, SMALL, tokens=60)
        assert (await refused(other, SMALL, tokens=60)).dimension == "tokens"


async def test_other_limits_are_adopted_and_what_is_used_stays_used(
    limiter: ValkeyLimiter,
) -> None:
    lease = await admitted(limiter, SMALL, tokens=60)
    wider = SMALL._replace(limits=replace(SMALL.limits, tokens=TokenWindow(200, 2_000_000)))
    assert await left_in(limiter, wider) == (9, 140, 2)
    lease.settle(10)  # charged to a ring that is gone: nothing comes back
    assert await left_in(limiter, wider) == (9, 140, 3)


async def test_costs_that_never_fit_are_failures(limiter: ValkeyLimiter) -> None:
    with pytest.raises(CostExceedsLimit, match="101 tokens, but the limit of the tenant 't'"):
        await limiter.reserve((GENEROUS, SMALL), Cost(101))
    with pytest.raises(CostExceedsLimit, match="11 KiB"):
        await limiter.reserve((SMALL,), Cost(1, kibibytes=11))
    for cost in (Cost(0), Cost(1 << 41), Cost(1, prompt_tokens=2)):
        with pytest.raises(ValueError, match=r"cost|prompt"):
            await limiter.reserve((SMALL,), cost)
    lease = await admitted(limiter, SMALL)
    with pytest.raises(ValueError, match="cost"):
        lease.settle(-1)
    assert lease.undo()
    assert await left_in(limiter, SMALL) == UNTOUCHED


async def test_without_scopes_nothing_is_limited(limiter: ValkeyLimiter) -> None:
    lease = await limiter.reserve((), Cost(1 << 40))
    assert isinstance(lease, Lease)
    assert lease.settle(5)
    assert (await limiter.peek(())).tokens is None


async def test_a_limit_that_cannot_be_counted_exactly_names_itself(limiter: ValkeyLimiter) -> None:
    rate = RequestRate(Fraction(999_999_937, 60), 999_999_937)
    with pytest.raises(ConfigError, match=r"tenant:t: limits.requests: a burst of 999999937"):
        await limiter.reserve((ScopedLimits("tenant:t", Limits(rate)),), Cost(1))


async def test_leases_are_renewed_while_their_owner_lives_and_not_after(
    valkey: ValkeyServer,
) -> None:
    async with limiter_on(valkey.url, lease_seconds=1.0) as limiter:
        lease = await admitted(limiter, SMALL, tokens=40)
        key = "ms:{default}:limit:leases:tenant:t"

        def expiry() -> float:
            return float(valkey.client.zrange(key, 0, 0, withscores=True)[0][1])

        first = expiry()
        await until_true(lambda: expiry() > first + 2 * 2_000_000)
        assert lease.renew()
        assert await left_in(limiter, SMALL) == (9, 60, 2)
        del lease
        gc.collect()
        await until_left(limiter, SMALL, places=3)
        assert await left_in(limiter, SMALL) == (9, 60, 3)


# redis-cell#50: a TTL below the unit of the server's expiry dropped the key at once.
@pytest.mark.parametrize("window_ms", [1, 16, 3_600_000])
async def test_keys_live_as_long_as_they_matter_and_no_longer(
    limiter: ValkeyLimiter, valkey: ValkeyServer, window_ms: int
) -> None:
    scope = ScopedLimits("model:m", Limits(tokens=TokenWindow(100, window_ms)))
    lease = await admitted(limiter, scope, tokens=10)
    keys = [key for key in valkey.client.keys("*") if b"probe" not in key]
    assert {key.partition(b"}")[0] for key in keys} == {b"ms:{default"}
    lease_ms = 30_000
    for key in keys:
        longest = max(window_ms * 17 // 16 + 1, lease_ms) + SPARE_MS
        assert SPARE_MS < valkey.client.pttl(key) <= longest
    lease.settle(10)
    await limiter.peek((scope,))
    (state,) = (key for key in valkey.client.keys("*") if b":state:" in key)
    assert SPARE_MS - 5000 < valkey.client.pttl(state) <= window_ms * 17 // 16 + 1 + SPARE_MS
