"""Limits that change while somebody waits for them."""

from __future__ import annotations

import pytest

from millstream.admission import Demand, LimitBook, Limits
from millstream.errors import CostExceedsLimit
from tests.unit.admission.parts import settle
from tests.unit.admission.room import ONE, QUEUE, Room, room_of


async def test_other_limits_hold_for_those_who_wait_already(rooms: list[Room]) -> None:
    room = room_of(rooms, ONE)
    for name in "abc":
        await room.ask(name)
    room.admission.replace(LimitBook(Limits(concurrency=2, queue=QUEUE)))
    await settle()
    assert room.order == ["a", "b"]
    room.admission.replace(LimitBook(Limits(concurrency=2)))
    await settle()
    assert room.refusal("c").dimension == "concurrency"


async def test_who_could_never_be_admitted_under_other_limits_waits_no_more(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, Limits(concurrency=2, queue=QUEUE))
    await room.ask("a")
    await room.ask("two", demands=[Demand("t", "m", 1), Demand("t", "n", 1)])
    room.admission.replace(LimitBook(ONE))
    await settle()
    with pytest.raises(CostExceedsLimit, match="2 open streams together"):
        room.tasks["two"].result()
