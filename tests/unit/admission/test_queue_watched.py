"""What is told of those who wait."""

from __future__ import annotations

import asyncio

import pytest

from millstream.admission import Admission, Demand, LimitBook, Limits, QueuePolicy
from millstream.admission.queue_observer import WaitEnding
from millstream.errors import EngineUnavailable
from tests.unit.admission.parts import settle
from tests.unit.admission.room import ONE, Room


class Seen:
    """Who waits, and how it ended for the others."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.ended: list[tuple[str, WaitEnding, float]] = []
        self.denied: list[tuple[str, WaitEnding]] = []

    def wait_began(self, model: str) -> None:
        self.waiting.append(model)

    def wait_ended(self, model: str, ending: WaitEnding, seconds: float) -> None:
        self.waiting.remove(model)
        self.ended.append((model, ending, seconds))

    def wait_denied(self, model: str, ending: WaitEnding) -> None:
        self.denied.append((model, ending))


class Watched(Room):
    """A room that is watched."""

    def __init__(self, book: LimitBook) -> None:
        super().__init__(book)
        self.seen = Seen()
        self.admission = Admission(
            self.limiter, book, clock=self.clock, scheduler=self.clock, observer=self.seen
        )


@pytest.fixture
def room(rooms: list[Room]) -> Watched:
    made = Watched(LimitBook(ONE))
    rooms.append(made)
    return made


async def test_who_need_not_wait_is_not_told(room: Watched) -> None:
    await room.ask("a")
    room.admission.replace(LimitBook(Limits(concurrency=1)))
    await room.ask("refused")
    assert (room.seen.waiting, room.seen.ended, room.seen.denied) == ([], [], [])


async def test_the_time_until_the_admission_is_told(room: Watched) -> None:
    await room.ask("a")
    await room.ask("b", model="n")
    assert room.seen.waiting == ["n"]
    await room.clock.turn(0.5)
    await room.end("a")
    assert (room.seen.waiting, room.seen.ended) == ([], [("n", "admitted", 0.5)])


async def test_a_deadline_a_departure_and_a_failure_are_told_apart(room: Watched) -> None:
    await room.ask("a")
    for name in ("gone", "failed"):
        await room.ask(name, tenant=name)
    room.tasks["gone"].cancel()
    await settle()
    room.admission.turn_away(EngineUnavailable("leaving"))
    await settle()
    await room.ask("late")
    await room.clock.turn(10)
    assert room.seen.ended == [("m", "client_gone", 0), ("m", "failed", 0), ("m", "deadline", 10)]
    assert room.seen.waiting == []
    with pytest.raises(EngineUnavailable):
        room.tasks["failed"].result()


async def test_who_leaves_in_the_moment_of_his_admission_has_left(room: Watched) -> None:
    await room.ask("a")
    await room.ask("b")
    for lease in room.leases("a"):
        lease.settle(1)
    await asyncio.sleep(0)
    room.tasks["b"].cancel()
    await settle()
    assert room.seen.ended == [("m", "client_gone", 0)]


async def test_a_full_queue_is_told_of_who_could_not_wait(room: Watched) -> None:
    room.admission.replace(LimitBook(Limits(concurrency=1, queue=QueuePolicy(1, 10))))
    for name in "abc":
        await room.ask(name, model=name)
    assert (room.seen.waiting, room.seen.denied) == (["b"], [("c", "full")])


async def test_other_limits_that_let_nobody_wait_are_a_full_queue(room: Watched) -> None:
    await room.ask("a")
    await room.ask("b")
    room.admission.replace(LimitBook(Limits(concurrency=1)))
    await settle()
    assert room.seen.ended == [("m", "full", 0)]


async def test_each_branch_is_told_of(room: Watched) -> None:
    room.admission.replace(LimitBook(Limits(concurrency=2, queue=ONE.queue)))
    await room.ask("a")
    await room.ask("two", demands=[Demand("t", "m", 1), Demand("t", "n", 1)])
    assert room.seen.waiting == ["m", "n"]
    await room.end("a")
    assert [model for model, *_ in room.seen.ended] == ["m", "n"]
