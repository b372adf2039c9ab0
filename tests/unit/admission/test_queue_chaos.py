"""Everybody who comes, goes, ends and is configured away at random, on a clock that is turned."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from millstream.admission import (
    Cost,
    Demand,
    Lease,
    LimitBook,
    Limits,
    MemoryLimiter,
    QueuePolicy,
    Refusal,
    RequestRate,
    ScopedLimits,
    TokenWindow,
)
from millstream.errors import CostExceedsLimit, LimiterUnavailable
from tests.unit.admission.parts import settle
from tests.unit.admission.room import Room

TENANTS, MODELS = "abc", "mn"
DEADLINE_SECONDS = 5
QUEUE = QueuePolicy(max_waiting=30, deadline_seconds=DEADLINE_SECONDS)


class FarLimiter(MemoryLimiter):
    """One that answers after a few turns of the loop, and fails now and then."""

    random = Random(0)
    fails = 0.0

    async def reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        for _ in range(self.random.randrange(3)):
            await asyncio.sleep(0)
        reserved = self.try_reserve(scopes, cost)
        try:
            for _ in range(self.random.randrange(3)):
                await asyncio.sleep(0)
            if self.random.random() < self.fails:
                raise LimiterUnavailable("away")
        except BaseException:
            if isinstance(reserved, Lease):
                reserved.undo()
            raise
        return reserved


def books(random: Random) -> LimitBook:
    def limits() -> Limits:
        return Limits(
            requests=random.choice([None, RequestRate(20, 10)]),
            tokens=random.choice([None, TokenWindow(100, 1_600)]),
            concurrency=random.choice([1, 2, 4]),
            queue=QUEUE,
        )

    return LimitBook(
        limits(),
        tenants={tenant: limits() for tenant in TENANTS},
        models={model: limits() for model in MODELS},
        tenant_models={("a", "m"): limits()},
    )


class Chaos:
    """A room, and what happens in it."""

    def __init__(self, seed: int, rooms: list[Room], limiter: type[MemoryLimiter]) -> None:
        self.random = Random(seed)
        self.room = Room(books(self.random), poll_ns=100_000_000, limiter=limiter)
        if isinstance(self.room.limiter, FarLimiter):
            self.room.limiter.random = self.random
        rooms.append(self.room)
        self.came: dict[str, int] = {}
        self.keys: dict[str, tuple[str, str]] = {}
        self.ended: set[str] = set()
        self._names: Iterator[str] = (f"r{number}" for number in range(10**6))

    async def step(self) -> None:
        happening = self.random.choices(
            [self.come, self.go, self.end, self.turn, self.reload], [8, 1, 4, 4, 0.3]
        )[0]
        await happening()

    async def come(self) -> None:
        name = next(self._names)
        self.came[name] = self.room.clock.now_ns
        self.keys[name] = (self.random.choice(TENANTS), self.random.choice(MODELS))
        tenant, model = self.keys[name]
        tokens = self.random.choice([1, 10, 60])
        demands = [Demand(tenant, model, tokens)]
        if self.random.random() < 0.1:
            demands = [Demand(tenant, each, 10) for each in MODELS]
            del self.keys[name]
        await self.room.ask(name, demands=demands, urgency=self.random.randrange(8))

    async def go(self) -> None:
        if self.room.waiting:
            self.room.tasks[self.random.choice(self.room.waiting)].cancel()
            # In the middle of whatever is going on.
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)

    async def end(self) -> None:
        held = [name for name in self.room.order if name not in self.ended]
        if held:
            name = self.random.choice(held)
            self.ended.add(name)
            for lease in self.room.leases(name):
                lease.undo() if self.random.random() < 0.5 else lease.settle(1)
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)

    async def turn(self) -> None:
        await self.room.clock.turn(self.random.choice([0.001, 0.1, 1]))

    async def reload(self) -> None:
        self.room.book = books(self.random)
        self.room.admission.replace(self.room.book)

    async def rest(self) -> None:
        for _ in range(100):
            await settle()


limiters = pytest.mark.parametrize("limiter", [MemoryLimiter, FarLimiter])
seeds = pytest.mark.parametrize("seed", range(12))


@limiters
@seeds
async def test_nothing_is_lost_whatever_happens(
    rooms: list[Room], seed: int, limiter: type[MemoryLimiter]
) -> None:
    chaos = Chaos(seed, rooms, limiter)
    room = chaos.room
    for _ in range(300):
        await chaos.step()
        await check_patience(chaos)
    await chaos.rest()
    await room.clock.turn(DEADLINE_SECONDS + 1)
    await chaos.rest()
    assert room.waiting == []
    for name in room.order:
        if name not in chaos.ended:
            await room.end(name)
    await room.clock.turn(60)
    for tenant in TENANTS:
        for model in MODELS:
            snapshot = room.limiter.try_peek(room.book.scopes(tenant, model))
            for meter in (snapshot.requests, snapshot.tokens, snapshot.concurrency):
                assert meter is None or meter.remaining == meter.limit


async def check_patience(chaos: Chaos) -> None:
    """Nobody waits beyond his deadline, and by more than the way to a far limiter."""
    await settle()
    now_ns = chaos.room.clock.now_ns
    for name in chaos.room.waiting:
        assert now_ns - chaos.came[name] <= (DEADLINE_SECONDS + 1) * 1e9


@seeds
async def test_nobody_is_passed_by_a_later_one_of_his_tenant_and_model(
    rooms: list[Room], seed: int
) -> None:
    chaos = Chaos(seed, rooms, MemoryLimiter)
    for _ in range(300):
        await chaos.step()
    await chaos.rest()
    arrived = list(chaos.came)
    for key in set(chaos.keys.values()):
        order = [name for name in chaos.room.order if chaos.keys.get(name) == key]
        assert order == sorted(order, key=arrived.index)


@seeds
async def test_whoever_is_first_waits_only_for_what_is_not_there(
    rooms: list[Room], seed: int
) -> None:
    chaos = Chaos(seed, rooms, MemoryLimiter)
    room = chaos.room
    for _ in range(200):
        await chaos.step()
        await settle()
        queue = room.admission._queue
        turns = sorted(queue._turn(head, room.clock.now_ns) for head in queue._line.heads())
        if turns:
            first = turns[0][2]
            (demand, *more) = first.demands
            reserved = room.limiter.try_reserve(
                room.book.scopes(demand.tenant, demand.model), demand.cost
            )
            assert more or isinstance(reserved, Refusal)
            if isinstance(reserved, Lease):
                reserved.undo()


@seeds
async def test_a_limiter_that_fails_now_and_then_leaves_nobody_behind(
    rooms: list[Room], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(FarLimiter, "fails", 0.2)
    chaos = Chaos(seed, rooms, FarLimiter)
    for _ in range(200):
        await chaos.step()
    await chaos.rest()
    await chaos.room.clock.turn(DEADLINE_SECONDS + 1)
    await chaos.rest()
    monkeypatch.setattr(FarLimiter, "fails", 0.0)
    assert chaos.room.waiting == []
    for task in chaos.room.tasks.values():
        if not task.cancelled() and task.exception() is not None:
            assert isinstance(task.exception(), (LimiterUnavailable, CostExceedsLimit))
    queue = chaos.room.admission._queue
    assert (queue._line._keys, queue._line._refused, queue._round) == ({}, {}, None)
