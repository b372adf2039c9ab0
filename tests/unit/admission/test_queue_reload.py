"""Limits that change while somebody waits for them."""

from __future__ import annotations

import pytest

from millstream.admission import Demand, LimitBook, Limits, TokenWindow
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


async def test_a_new_limit_on_open_streams_counts_those_of_a_scope_that_had_limits(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, Limits(tokens=TokenWindow(100, 1_000)))
    await room.ask("a")
    room.admission.replace(LimitBook(Limits(concurrency=1)))
    await room.ask("b")
    assert room.refusal("b").dimension == "concurrency"


# Nobody counts for a scope that limits nothing: that would cost every request a key.
async def test_a_new_limit_on_open_streams_counts_from_then_on_in_a_scope_without_limits(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, Limits())
    await room.ask("a")
    room.admission.replace(LimitBook(ONE))
    await room.ask("b")
    await room.ask("c")
    assert (room.order, room.waiting) == (["a", "b"], ["c"])
    # The end of one that was never counted gives no place.
    await room.end("a")
    assert room.waiting == ["c"]
    await room.end("b")
    assert room.order == ["a", "b", "c"]
