"""Valkey is away, silent, or refuses: what is granted then, and what comes after."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from fractions import Fraction
from typing import Any, NamedTuple

import pytest

from millstream.admission import (
    BytesInFlight,
    Cost,
    Lease,
    Limits,
    Refusal,
    RequestRate,
    ScopedLimits,
    TokenWindow,
)
from millstream.admission.valkey import ValkeyLimiter
from millstream.admission.valkey.lease import ValkeyLease
from millstream.admission.valkey.link import Link
from millstream.admission.valkey.script import Command
from millstream.errors import CostExceedsLimit, LimiterUnavailable
from tests.integration.valkey_limiters import (
    HOUR_MS,
    Seen,
    admitted,
    left_in,
    limiter_on,
    refused,
    until_left,
)
from tests.integration.valkey_server import ValkeyServer
from tests.waiting import until_true

WIDE = ScopedLimits(
    "global", Limits(RequestRate(Fraction(1, 3600), 20), TokenWindow(1000, HOUR_MS), 10)
)

Opened = AbstractAsyncContextManager[ValkeyLimiter]


class Trouble(NamedTuple):
    """What can befall a server, and what mends it."""

    begin: Callable[[ValkeyServer], object]
    end: Callable[[ValkeyServer], object]
    left: tuple[int, ...]
    """Of `WIDE`, after leases on 40 (settled) and 100 tokens, and one asked for in vain on 50."""


def lock(server: ValkeyServer) -> None:
    server.client.config_set("requirepass", "secret")
    server.client.client_kill_filter(_type="normal", skipme=True)


def unlock(server: ValkeyServer) -> None:
    server.client.config_set("requirepass", "")


TROUBLES = {
    "dead": Trouble(ValkeyServer.kill, ValkeyServer.start, (19, 900, 9)),
    "silent": Trouble(ValkeyServer.freeze, ValkeyServer.thaw, (17, 810, 9)),
    "locked": Trouble(
        lock, lambda server: server.client.config_set("requirepass", ""), (18, 860, 9)
    ),
    "full": Trouble(
        lambda server: server.client.config_set("maxmemory", 1),
        lambda server: server.client.config_set("maxmemory", 0),
        (18, 860, 9),
    ),
    "demoted": Trouble(
        lambda server: server.client.replicaof("127.0.0.1", 1),
        lambda server: server.client.replicaof("NO", "ONE"),
        (18, 860, 9),
    ),
}


@pytest.fixture(autouse=True)
def _lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "millstream.admission")


def lines(caplog: pytest.LogCaptureFixture, event: str) -> int:
    return [record.getMessage() for record in caplog.records].count(event)


@pytest.fixture(params=TROUBLES)
def trouble(request: pytest.FixtureRequest) -> Trouble:
    return TROUBLES[request.param]


def impatient(server: ValkeyServer, seen: Seen | None = None, **more: Any) -> Opened:
    return limiter_on(server.url, seen=seen, call_seconds=1.0, **more)


async def test_local_shares_are_granted_until_valkey_is_back(
    own_valkey: ValkeyServer, trouble: Trouble, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    async with impatient(own_valkey, seen, instances=2, workers=2) as limiter:
        before = await admitted(limiter, WIDE, tokens=100)
        trouble.begin(own_valkey)
        there = [await admitted(limiter, WIDE, tokens=50) for _ in range(2)]
        assert not any(isinstance(lease, ValkeyLease) for lease in there)
        assert await left_in(limiter, WIDE) == (3, 150, 0)
        refusal = await refused(limiter, WIDE, tokens=50)
        assert (refusal.dimension, refusal.retry_after_seconds) == ("concurrency", 1)
        assert seen.ups == [True, False]
        trouble.end(own_valkey)
        await until_true(lambda: seen.ups == [True, False, True])
        assert isinstance(await admitted(limiter, WIDE, tokens=100), ValkeyLease)
        there[0].settle(10)
        assert before.settle(40) == (trouble is not TROUBLES["dead"])
        assert await left_in(limiter, WIDE) == trouble.left
    assert (lines(caplog, "limiter_down"), lines(caplog, "limiter_up")) == (1, 1)


async def test_refusing_is_a_failure_until_valkey_is_back(
    own_valkey: ValkeyServer, trouble: Trouble
) -> None:
    seen = Seen()
    async with impatient(own_valkey, seen, when_down="refuse") as limiter:
        await admitted(limiter, WIDE)
        trouble.begin(own_valkey)
        for _ in range(3):
            with pytest.raises(LimiterUnavailable):
                await limiter.reserve((WIDE,), Cost(1))
            with pytest.raises(LimiterUnavailable):
                await limiter.peek((WIDE,))
        trouble.end(own_valkey)
        await until_true(lambda: seen.ups == [True, False, True])
        await admitted(limiter, WIDE)


async def test_a_limiter_that_starts_without_valkey_counts_there_once_it_is_there(
    own_valkey: ValkeyServer,
) -> None:
    own_valkey.kill()
    seen = Seen()
    async with impatient(own_valkey, seen) as limiter:
        await admitted(limiter, WIDE)
        own_valkey.start()
        await until_true(lambda: seen.ups == [False, True])
        assert isinstance(await admitted(limiter, WIDE), ValkeyLease)


async def test_endings_arrive_after_an_outage_and_those_of_the_share_stay_there(
    durable_valkey: ValkeyServer,
) -> None:
    seen = Seen()
    async with impatient(durable_valkey, seen, lease_seconds=600.0) as limiter:
        leases = [await admitted(limiter, WIDE, tokens=100) for _ in range(3)]
        durable_valkey.kill()
        here = await admitted(limiter, WIDE, tokens=100)
        for lease in leases:
            assert lease.cancel(10)
        durable_valkey.start()
        await until_true(lambda: seen.ups[-1])
        assert await left_in(limiter, WIDE) == (17, 970, 10)
        assert here.settle(1)
        assert await left_in(limiter, WIDE) == (17, 970, 10)


async def test_an_ending_that_can_no_longer_arrive_in_time_is_given_up(
    own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with impatient(own_valkey, lease_seconds=1.0) as limiter:
        lease, other = [await admitted(limiter, WIDE) for _ in range(2)]
        own_valkey.kill()
        assert lease.settle(5)
        await until_true(lambda: lines(caplog, "settlements_expired"))
        assert not other.settle(5)
        assert not other.renew()


async def test_a_defect_ends_one_exchange_and_no_more(
    own_valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, exchange, failures = Seen(), Link.exchange, iter([ValueError])

    async def failing_once(link: Link, commands: Sequence[Command]) -> list[Any]:
        for failure in failures:
            raise failure
        return await exchange(link, commands)

    async with impatient(own_valkey, seen) as limiter:
        lease = await admitted(limiter, WIDE, tokens=100)
        monkeypatch.setattr(Link, "exchange", failing_once)
        assert not isinstance(await admitted(limiter, WIDE), ValkeyLease)
        assert lease.settle(40)
        await until_true(lambda: seen.ups == [True, False, True])
        await until_left(limiter, WIDE, places=10)
        assert await left_in(limiter, WIDE) == (19, 960, 10)


async def test_a_call_without_an_answer_leaks_no_place(own_valkey: ValkeyServer) -> None:
    seen = Seen()
    async with impatient(own_valkey, seen, lease_seconds=600.0) as limiter:
        await limiter.peek((WIDE,))
        own_valkey.freeze()
        share = await admitted(limiter, WIDE, tokens=100)
        assert not isinstance(share, ValkeyLease)
        own_valkey.thaw()
        await until_true(lambda: seen.ups[-1])
        await until_left(limiter, WIDE, places=10)
        # Whether it had been taken, nobody knows: if so, its tokens stay charged.
        requests, tokens, _ = await left_in(limiter, WIDE)
        assert (requests, tokens) in {(19, 900), (20, 1000)}


async def test_settlements_are_handed_over_on_closing(own_valkey: ValkeyServer) -> None:
    async with impatient(own_valkey) as limiter:
        leases = [await admitted(limiter, WIDE, tokens=100) for _ in range(10)]
        for lease in leases:
            lease.settle(1)
    async with impatient(own_valkey) as other:
        assert await left_in(other, WIDE) == (10, 990, 10)


async def test_settlements_that_cannot_be_handed_over_on_closing_are_told(
    own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with impatient(own_valkey) as limiter:
        lease = await admitted(limiter, WIDE)
        own_valkey.kill()
        assert lease.settle(1)
    assert lines(caplog, "settlements_left") == 1


async def test_a_settlement_that_is_refused_again_and_again_is_given_up_and_told(
    own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with impatient(own_valkey, lease_seconds=600.0) as limiter:
        lease = await admitted(limiter, WIDE)
        (state,) = own_valkey.client.keys("*:state:*")
        own_valkey.client.set(state, b"somebody else's")
        assert lease.settle(1)
        await until_true(lambda: lines(caplog, "settlements_refused"))
    assert not lines(caplog, "settlements_left")


async def test_who_asks_while_it_closes_gets_an_answer(own_valkey: ValkeyServer) -> None:
    async with impatient(own_valkey) as limiter:
        own_valkey.freeze()
        asking = asyncio.ensure_future(limiter.reserve((WIDE,), Cost(10)))
        await asyncio.sleep(0)
        await limiter.close()
        assert isinstance(await asking, Lease)
        assert isinstance(await limiter.reserve((WIDE,), Cost(10)), Lease)


@pytest.mark.parametrize(
    ("limits", "dimension"),
    [
        (Limits(RequestRate(Fraction(5, 60), 5)), "requests"),
        (Limits(tokens=TokenWindow(100, HOUR_MS)), "tokens"),
        (Limits(concurrency=7), "concurrency"),
        (Limits(bytes_in_flight=BytesInFlight(32 * 1024)), "bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_share_that_is_too_small_refuses_and_says_when_to_come_back(
    own_valkey: ValkeyServer, limits: Limits, dimension: str
) -> None:
    scope = ScopedLimits("tenant:t", limits)
    async with impatient(own_valkey, instances=4, workers=2) as limiter:
        own_valkey.kill()
        refusal = await limiter.reserve((scope,), Cost(20, kibibytes=5))
        assert isinstance(refusal, Refusal)
        assert (refusal.scope, refusal.dimension) == ("tenant:t", dimension)
        assert refusal.retry_after_seconds == 1


async def test_what_the_whole_limit_would_never_grant_is_a_failure_also_now(
    own_valkey: ValkeyServer,
) -> None:
    async with impatient(own_valkey, workers=8) as limiter:
        own_valkey.kill()
        with pytest.raises(CostExceedsLimit, match=r"1001 tokens.* limit of the server is 1000"):
            await limiter.reserve((WIDE,), Cost(1001))
