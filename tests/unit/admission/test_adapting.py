"""Demands that take less instead of nothing, as they stand when their turn comes."""

from __future__ import annotations

import pytest

from millstream.admission import Demand, LimitBook, Limits, QueuePolicy, TokenWindow
from millstream.errors import CostExceedsLimit
from tests.unit.admission.parts import settle
from tests.unit.admission.room import Room, room_of

WINDOW_MS = 1_600
TOKENS = TokenWindow(100, WINDOW_MS)
QUEUE = QueuePolicy(10, 10)


def adapting(tokens: int, least: int, *, tenant: str = "t", model: str = "m") -> Demand:
    return Demand(tenant, model, tokens, prompt_tokens=least - 1, least_tokens=least)


def taken(room: Room, name: str) -> list[int]:
    return [lease.tokens for lease in room.leases(name)]


@pytest.mark.parametrize(("left", "expected"), [(100, 50), (50, 50), (49, 49), (5, 5)])
async def test_a_demand_takes_what_is_left_down_to_its_least(
    rooms: list[Room], left: int, expected: int
) -> None:
    room = room_of(rooms, Limits(tokens=TOKENS))
    if left < 100:
        await room.ask("others", tokens=100 - left)
    await room.ask("a", demands=[adapting(50, 5)])
    assert taken(room, "a") == [expected]
    assert room.left() == (left - expected,)


async def test_less_than_the_least_is_refused_with_the_wait_for_the_least(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, Limits(tokens=TOKENS))
    await room.ask("soon", tokens=10)
    await room.clock.turn(0.8)
    await room.ask("late", tokens=90)
    await room.ask("a", demands=[adapting(50, 5)])
    await room.ask("whole", tokens=50)
    refusal, whole = room.refusal("a"), room.refusal("whole")
    assert refusal.dimension == "tokens"
    assert refusal.retry_after_ns < whole.retry_after_ns
    await room.clock.turn(refusal.retry_after_ns / 1e9)
    await room.ask("again", demands=[adapting(50, 5)])
    assert taken(room, "again") == [10]


async def test_who_waits_takes_what_is_left_in_its_turn(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(tokens=TOKENS, concurrency=1, queue=QUEUE))
    await room.ask("first", tokens=30)
    await room.ask("second", tokens=60)
    await room.ask("a", demands=[adapting(100, 5)])
    # 70 are left as it comes; in its turn it is 100 less what both before have used.
    for lease in room.leases("first"):
        lease.settle(20)
    await settle()
    await room.end("second")
    assert room.order == ["first", "second", "a"]
    assert taken(room, "a") == [20]


async def test_it_goes_on_waiting_for_its_least_and_then_takes_all_there_is(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, Limits(tokens=TOKENS, queue=QUEUE))
    await room.ask("soon", tokens=10)
    await room.clock.turn(0.2)
    await room.ask("late", tokens=88)
    await room.ask("a", demands=[adapting(50, 5)])
    await room.ask("behind", tokens=1)
    assert room.waiting == ["a", "behind"]
    await room.clock.turn(1.5)
    assert room.order == ["soon", "late", "a"]
    assert taken(room, "a") == [12]
    await room.clock.turn(0.3)
    assert room.order[-1] == "behind"


async def test_without_a_least_a_demand_takes_all_or_nothing(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(tokens=TOKENS))
    await room.ask("others", tokens=60)
    await room.ask("a", tokens=50)
    assert room.refusal("a").dimension == "tokens"
    assert room.left() == (40,)


async def test_a_refusal_of_another_dimension_is_as_ever(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(tokens=TOKENS, concurrency=1))
    await room.ask("others", tokens=1)
    await room.ask("a", demands=[adapting(50, 5)])
    assert room.refusal("a").dimension == "concurrency"


async def test_more_than_the_limit_is_cut_to_the_limit_and_the_least_never_is(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, Limits(tokens=TOKENS))
    await room.ask("a", demands=[adapting(1000, 5)])
    assert taken(room, "a") == [100]
    await room.ask("never", demands=[adapting(1000, 101)])
    with pytest.raises(CostExceedsLimit, match="101 tokens"):
        room.tasks["never"].result()


async def test_who_could_be_cut_is_not_told_that_waiting_would_not_help(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, Limits(tokens=TOKENS, queue=QUEUE))
    await room.ask("others", tokens=100)
    await room.ask("ahead", tokens=100)
    await room.ask("a", demands=[adapting(1000, 5)])
    await room.ask("several", demands=[adapting(90, 5), adapting(90, 5, model="n")])
    assert room.waiting == ["ahead", "a", "several"]
    await room.clock.turn(6.8)
    assert taken(room, "a") == [100]
    assert taken(room, "several") == [50, 50]


async def test_branches_share_what_they_draw_on_and_no_more(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(), models={"m": Limits(tokens=TOKENS)})
    await room.ask("others", tokens=39)
    demands = [adapting(90, 5), adapting(20, 5), adapting(500, 5, model="free")]
    await room.ask("a", demands=demands)
    assert taken(room, "a") == [30, 20, 500]
    assert room.left() == (11,)


async def test_the_tightest_of_several_limits_decides(rooms: list[Room]) -> None:
    server = Limits(tokens=TokenWindow(60, WINDOW_MS))
    tenants = {"t": Limits(tokens=TokenWindow(40, WINDOW_MS))}
    room = room_of(rooms, server, tenants=tenants)
    await room.ask("others", tenant="u", tokens=25)
    await room.ask("a", demands=[adapting(90, 5)])
    assert taken(room, "a") == [35]


async def test_other_limits_count_for_one_who_waits(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(tokens=TOKENS, queue=QUEUE))
    await room.ask("others", tokens=100)
    await room.ask("a", demands=[adapting(500, 5)])
    room.admission.replace(LimitBook(Limits(tokens=TokenWindow(130, WINDOW_MS), queue=QUEUE)))
    await settle()
    assert taken(room, "a") == [30]
