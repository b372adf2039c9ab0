"""Waiting for a limiter that is asked over a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cached_property

import pytest

from millstream.admission import (
    Cost,
    Lease,
    LimitBook,
    Limits,
    MemoryLimiter,
    Refusal,
    ScopedLimits,
)
from tests.unit.admission.parts import settle
from tests.unit.admission.room import ONE, QUEUE, Room


class SlowLimiter(MemoryLimiter):
    """One that is asked over a network: it decides at once, and answers when told."""

    slow = False

    @cached_property
    def answers(self) -> list[asyncio.Event]:
        """One for each question that was put."""
        return []

    async def reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        reserved = self.try_reserve(scopes, cost)
        if self.slow:
            self.answers.append(asyncio.Event())
            await self.answers[-1].wait()
        return reserved

    async def answer(self) -> None:
        """Every question that is open has its answer."""
        for event in self.answers:
            event.set()
        await settle()


@pytest.fixture
async def slow(rooms: list[Room]) -> AsyncIterator[Room]:
    room = Room(LimitBook(ONE), poll_ns=100_000_000, limiter=SlowLimiter)
    rooms.append(room)
    yield room
    slow_limiter(room).slow = False
    await slow_limiter(room).answer()


def slow_limiter(room: Room) -> SlowLimiter:
    assert isinstance(room.limiter, SlowLimiter)
    return room.limiter


async def test_who_has_gone_while_the_limiter_was_asked_takes_nothing(slow: Room) -> None:
    await slow.ask("a")
    await slow.ask("b")
    await slow.ask("c")
    slow_limiter(slow).slow = True
    await slow.end("a")
    slow.tasks["b"].cancel()
    await settle()
    # Granted to nobody, until the answer is there.
    assert (slow.left(), slow.order) == ((0,), ["a"])
    await slow_limiter(slow).answer()
    await slow_limiter(slow).answer()
    assert slow.order == ["a", "c"]
    await slow.end("c")
    assert slow.left() == (1,)


async def test_a_newcomer_does_not_overtake_while_the_limiter_is_asked(slow: Room) -> None:
    await slow.ask("a")
    await slow.ask("b")
    slow_limiter(slow).slow = True
    await slow.end("a")
    await slow.ask("c", urgency=0)
    assert len(slow_limiter(slow).answers) == 1
    await slow_limiter(slow).answer()
    assert slow.order == ["a", "b"]


async def test_a_lease_that_ends_while_the_limiter_is_asked_is_not_missed(slow: Room) -> None:
    limiter = slow_limiter(slow)
    await slow.ask("a")
    await slow.ask("b")
    limiter.slow = True
    await slow.clock.turn(0.2)
    assert len(limiter.answers) == 1  # refused, but not told yet
    await slow.end("a")
    await limiter.answer()
    await limiter.answer()
    assert slow.order == ["a", "b"]


@pytest.fixture
async def patient(rooms: list[Room]) -> AsyncIterator[Room]:
    """One that nobody looks at again by itself: each end of a lease has to be heard."""
    room = Room(LimitBook(ONE), limiter=SlowLimiter)
    rooms.append(room)
    yield room
    slow_limiter(room).slow = False
    await slow_limiter(room).answer()


async def test_a_lease_that_ends_before_the_first_one_waits_is_not_missed(patient: Room) -> None:
    limiter = slow_limiter(patient)
    await patient.ask("a")
    limiter.slow = True
    await patient.ask("b")  # refused, but not told yet
    await patient.end("a")
    await limiter.answer()
    await limiter.answer()
    assert patient.order == ["a", "b"]


async def test_who_comes_behind_one_who_is_being_admitted_is_tried_after_him(
    rooms: list[Room],
) -> None:
    room = Room(LimitBook(Limits(concurrency=2, queue=QUEUE)), limiter=SlowLimiter)
    rooms.append(room)
    limiter = slow_limiter(room)
    for name in "abc":
        await room.ask(name, tenant=name)
    limiter.slow = True
    await room.end("a")
    elsewhere = limiter.try_reserve(room.book.scopes("x", "m"), Cost(1))
    assert not elsewhere  # `c` has the place, and does not know yet
    await room.ask("d", tenant="d")
    (held,) = room.leases("b")
    held._lease.settle(1)  # type: ignore[attr-defined]  # nobody is woken by it
    await limiter.answer()
    await limiter.answer()
    limiter.slow = False
    assert room.order == ["a", "b", "c", "d"]


async def test_a_deadline_does_not_wait_for_a_slow_round(rooms: list[Room]) -> None:
    tenants = {f"t{number}": ONE for number in range(5)}
    room = Room(LimitBook(tenants=tenants), limiter=SlowLimiter)
    rooms.append(room)
    limiter = slow_limiter(room)
    for name in tenants:
        await room.ask(f"{name} first", tenant=name)
        await room.ask(f"{name} waits", tenant=name)
    limiter.slow = True
    await room.clock.turn(1)  # a round begins, and each answer takes 5 seconds
    for _ in range(3):
        await room.clock.turn(5)
        await limiter.answer()
    limiter.slow = False
    assert room.waiting == []
