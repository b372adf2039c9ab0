"""Demands that take less instead of nothing, counted in Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from millstream.admission import (
    Admission,
    Demand,
    Lease,
    LimitBook,
    Limits,
    QueuePolicy,
    Refusal,
    TokenWindow,
)
from millstream.admission.valkey import ValkeyLimiter
from millstream.errors import CostExceedsLimit
from tests.integration.valkey_limiters import HOUR_MS, limiter_on
from tests.integration.valkey_server import ValkeyServer
from tests.waiting import until_true

LIMITS = Limits(tokens=TokenWindow(100, HOUR_MS), concurrency=4, queue=QueuePolicy(10, 7200))
BOOK = LimitBook(LIMITS)


@pytest.fixture
async def limiter(valkey: ValkeyServer) -> AsyncIterator[ValkeyLimiter]:
    async with limiter_on(valkey.url) as made:
        yield made


@pytest.fixture
def admission(limiter: ValkeyLimiter) -> Admission:
    """Nobody looks again by itself: what ends here is heard here."""
    return Admission(limiter, BOOK)


def adapting(tokens: int, least: int = 5) -> Demand:
    return Demand("t", "m", tokens, prompt_tokens=least - 1, least_tokens=least)


def tokens_of(admitted: list[Lease] | Refusal) -> list[int]:
    assert isinstance(admitted, list), admitted
    return [lease.tokens for lease in admitted]


async def used(admission: Admission, tokens: int) -> Lease:
    admitted = await admission.admit([Demand("t", "m", tokens)])
    assert isinstance(admitted, list)
    return admitted[0]


async def left(admission: Admission) -> int:
    meter = (await admission.peek("t", "m")).tokens
    assert meter is not None
    return meter.remaining


@pytest.mark.parametrize(("tokens", "expected"), [(0, 50), (50, 50), (51, 49), (95, 5)])
async def test_a_demand_takes_what_is_left_down_to_its_least(
    admission: Admission, tokens: int, expected: int
) -> None:
    if tokens:
        await used(admission, tokens)
    assert tokens_of(await admission.admit([adapting(50)])) == [expected]
    assert await left(admission) == 100 - tokens - expected


async def test_branches_share_what_is_left(admission: Admission) -> None:
    await used(admission, 39)
    assert tokens_of(await admission.admit([adapting(90), adapting(20)])) == [30, 20]
    assert await left(admission) == 11


async def test_a_least_that_never_fits_is_a_failure(admission: Admission) -> None:
    assert tokens_of(await admission.admit([adapting(1000)])) == [100]
    with pytest.raises(CostExceedsLimit, match="101 tokens"):
        await admission.admit([adapting(1000, 101)])


async def test_who_waits_takes_what_is_left_in_its_turn(admission: Admission) -> None:
    held = [await used(admission, 1) for _ in range(3)]
    last = await used(admission, 60)
    task = asyncio.create_task(admission.admit([adapting(100)]))
    await until_true(lambda: admission.waiting)
    # 37 were left as it came.
    last.settle(20)
    assert tokens_of(await task) == [77]
    assert await left(admission) == 0
    for lease in held:
        lease.settle(1)


async def test_it_goes_on_waiting_below_its_least(admission: Admission) -> None:
    small, large = await used(admission, 6), await used(admission, 94)
    task = asyncio.create_task(admission.admit([adapting(100, 10)]))
    await until_true(lambda: admission.waiting)
    small.settle(1)
    await asyncio.wait([task], timeout=0.2)
    assert (admission.waiting, await left(admission)) == (1, 5)
    large.settle(80)
    assert tokens_of(await task) == [19]


async def test_other_workers_never_get_the_same_tokens(
    limiter: ValkeyLimiter, valkey: ValkeyServer
) -> None:
    many = Limits(tokens=TokenWindow(100, HOUR_MS))
    async with limiter_on(valkey.url) as other:
        admissions = [Admission(each, LimitBook(many)) for each in (limiter, other)]
        asked = [admission.admit([adapting(30)]) for admission in admissions * 8]
        answers = await asyncio.gather(*asked)
    granted = [sum(tokens_of(one)) for one in answers if not isinstance(one, Refusal)]
    assert 90 <= sum(granted) <= 100
    assert all(5 <= tokens <= 30 for tokens in granted)
