"""Waiting for a limiter that is asked over a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cached_property

import pytest

from millstream.admission import Cost, Lease, LimitBook, MemoryLimiter, Refusal, ScopedLimits
from tests.unit.admission.parts import settle
from tests.unit.admission.room import ONE, Room


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
