"""Waiting instead of a refusal: who goes first, how long, and what giving up costs."""

from __future__ import annotations

import asyncio
import gc
from random import Random

import pytest

from millstream.admission import (
    Admission,
    Demand,
    Lease,
    LimitBook,
    Limits,
    MemoryLimiter,
    QueuePolicy,
    Refusal,
    RequestRate,
    TokenWindow,
)
from millstream.admission.headers import refusal_headers
from millstream.errors import CostExceedsLimit, EngineUnavailable, LimiterUnavailable
from tests.unit.admission.parts import settle
from tests.unit.admission.room import ONE, QUEUE, Room, room_of


async def test_without_a_queue_a_refusal_comes_at_once(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(concurrency=1))
    await room.ask("a")
    await room.ask("b")
    assert room.refusal("b").dimension == "concurrency"


async def test_the_end_of_a_lease_admits_who_waits_for_it(rooms: list[Room]) -> None:
    room = room_of(rooms, ONE)
    await room.ask("a")
    await room.ask("b")
    assert room.waiting == ["b"]
    await room.end("a")
    assert room.order == ["a", "b"]


@pytest.mark.parametrize("ending", ["settle", "cancel", "undo"])
async def test_every_ending_of_a_lease_is_heard_once(rooms: list[Room], ending: str) -> None:
    room = room_of(rooms, ONE)
    await room.ask("a")
    await room.ask("b")
    await room.ask("c")
    (lease,) = room.leases("a")
    assert lease.renew()
    for _ in range(2):
        getattr(lease, ending)(*() if ending == "undo" else (1,))
        await settle()
    assert room.order == ["a", "b"]
    assert not lease.renew()


async def test_a_known_wait_ends_by_the_clock(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(RequestRate(2, burst=1), queue=QUEUE))
    for name in "abc":
        await room.ask(name)
    await room.clock.turn(0.499)
    assert room.order == ["a"]
    await room.clock.turn(0.001)
    assert room.order == ["a", "b"]
    await room.clock.turn(0.5)
    assert room.order == ["a", "b", "c"]


async def test_one_timer_serves_all(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(RequestRate(1, burst=1), queue=QUEUE))
    for name in "abcdef":
        await room.ask(name)
    assert room.clock.pending == 1


async def test_a_wait_that_is_known_to_be_too_long_is_refused_at_once(rooms: list[Room]) -> None:
    limits = Limits(RequestRate(0.5, burst=1), queue=QueuePolicy(10, deadline_seconds=2))
    room = room_of(rooms, limits)
    await room.ask("a")
    await room.ask("b")
    assert room.waiting == ["b"]
    await room.clock.turn(2)
    assert room.order == ["a", "b"]
    short = room_of(rooms, Limits(RequestRate(0.5, 1), queue=QueuePolicy(10, 1.999)))
    await short.ask("a")
    await short.ask("b")
    assert short.refusal("b").retry_after_ns == 2_000_000_000


async def test_no_more_wait_than_the_scope_allows(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(concurrency=1, queue=QueuePolicy(2, 10)))
    for name in "abcd":
        await room.ask(name)
    assert room.waiting == ["b", "c"]
    assert room.refusal("d").scope == "global"
    room.tasks["c"].cancel()
    await settle()
    await room.ask("e")
    assert room.waiting == ["b", "e"]


async def test_who_is_refused_behind_another_tenant_hears_nothing_of_its_limits() -> None:
    shared = Limits(concurrency=1, tokens=TokenWindow(5000, 1000), queue=QueuePolicy(1, 10))
    book = LimitBook(
        models={"m": shared},
        tenants={
            "first": Limits(tokens=TokenWindow(777, 1000)),
            "other": Limits(tokens=TokenWindow(999, 1000)),
        },
    )
    admission = Admission(MemoryLimiter(clock=lambda: 0), book, clock=lambda: 0)
    held = await admission.admit([Demand("first", "m", 10)])
    assert not isinstance(held, Refusal)
    waiting = asyncio.ensure_future(admission.admit([Demand("first", "m", 10)]))
    await settle()
    refusal = await admission.admit([Demand("other", "m", 10)])
    assert isinstance(refusal, Refusal)
    assert (refusal.scope, refusal.dimension) == ("model:m", "concurrency")
    headers = refusal_headers(refusal)
    assert "777" not in "".join(headers.values())
    assert headers["ratelimit"] == '"tokens";r=999;t=0, "concurrency";r=0'
    assert {scope for scope, _ in refusal.limits} == {"model:m", "tenant:other"}
    held[0].undo()
    assert not isinstance(await waiting, Refusal)


async def test_the_deadline_ends_in_the_last_refusal(rooms: list[Room]) -> None:
    room = room_of(rooms, ONE)
    await room.ask("a")
    await room.ask("b")
    await room.clock.turn(9.999)
    assert room.waiting == ["b"]
    await room.clock.turn(0.001)
    refusal = room.refusal("b")
    assert (refusal.dimension, refusal.scope) == ("concurrency", "global")
    assert room.admission.waiting == 0


async def test_a_refusal_at_the_deadline_names_the_wait_that_is_left(rooms: list[Room]) -> None:
    limits = Limits(tokens=TokenWindow(100, 16_000), queue=QueuePolicy(10, 30))
    room = room_of(rooms, limits)
    await room.ask("a", tokens=100)
    await room.ask("b", tokens=100)
    await room.clock.turn(5)
    # Whoever is behind has the wait of the one ahead.
    room.admission.replace(LimitBook(Limits(tokens=limits.tokens, queue=QueuePolicy(10, 6))))
    await settle()
    assert room.refusal("b").retry_after_ns == 12_000_000_000


async def test_of_one_tenant_and_model_the_first_come_goes_first(rooms: list[Room]) -> None:
    limits = Limits(tokens=TokenWindow(100, 1_000), queue=QUEUE)
    room = room_of(rooms, limits)
    await room.ask("a", tokens=90)
    await room.ask("large", tokens=80)
    # It would fit, and is more urgent.
    await room.ask("small", tokens=5, urgency=0)
    assert room.waiting == ["large", "small"]
    await room.clock.turn(3)
    assert room.order == ["a", "large", "small"]


async def test_the_more_urgent_tenant_goes_first_then_who_came_earlier(rooms: list[Room]) -> None:
    room = room_of(rooms, ONE)
    await room.ask("a")
    for name, urgency in (("b", 5), ("c", 3), ("d", 0), ("e", 3)):
        await room.ask(name, tenant=name, urgency=urgency)
    for name in "adce":
        await room.end(name)
    assert room.order == ["a", "d", "c", "e", "b"]


async def test_a_more_urgent_newcomer_does_not_queue_behind_others(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(tokens=TokenWindow(100, 1_000), queue=QUEUE))
    await room.ask("a", tokens=50)
    await room.ask("large", tenant="u", tokens=80)
    await room.ask("later", tenant="v", tokens=5)
    await room.ask("urgent", tenant="w", tokens=5, urgency=2)
    assert room.order == ["a", "urgent"]
    assert room.waiting == ["large", "later"]


async def test_waiting_makes_urgent_so_that_nobody_starves(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(concurrency=1, queue=QueuePolicy(1000, 600)))
    await room.ask("0", tenant="busy", urgency=0)
    await room.ask("patient", tenant="p", urgency=7)
    for number in range(1, 20):
        await room.ask(str(number), tenant="busy", urgency=0)
    for number in range(20):
        if "patient" in room.order:
            break
        await room.clock.turn(0.6)
        await room.ask(f"{number + 100}", tenant="busy", urgency=0)
        await room.end(str(number))
    # Seven seconds make 0 out of 7, and then it is the one who came first.
    assert room.order.index("patient") == 12


async def test_a_large_request_is_not_passed_for_ever_by_small_ones(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(tokens=TokenWindow(100, 1_600), queue=QueuePolicy(1000, 600)))
    for number in range(8):
        await room.ask(f"first{number}", tenant=f"t{number}", tokens=10)
        await room.clock.turn(0.1)
    await room.ask("large", tenant="large", tokens=100)
    for number in range(30):
        await room.ask(f"small{number}", tenant=f"s{number}", tokens=10)
        await room.clock.turn(0.1)
    assert room.order[8] == "large"


async def test_who_waits_for_two_scopes_in_turn_is_passed_in_neither(rooms: list[Room]) -> None:
    one = Limits(concurrency=1, queue=QueuePolicy(1000, 600))
    room = room_of(rooms, Limits(), tenants={"t": one}, models={"m": one})
    await room.ask("tenant", model="other")
    await room.ask("model", tenant="u")
    await room.ask("both")
    await room.ask("tenant2", model="other")
    assert room.waiting == ["both", "tenant2"]
    await room.end("tenant")
    # Its tenant has room now, its model not yet: neither is taken before it.
    assert room.waiting == ["both", "tenant2"]
    await room.ask("model2", tenant="u")
    await room.end("model")
    assert room.order == ["tenant", "model", "both"]


async def test_others_pass_where_they_need_nothing_of_what_is_waited_for(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, Limits(concurrency=9), models={"m": ONE})
    await room.ask("a")
    await room.ask("b")
    await room.ask("c", model="free")
    assert room.order == ["a", "c"]


async def test_a_permanent_refusal_is_raised_at_once_also_behind_others(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(tokens=TokenWindow(100, 1_000), queue=QUEUE))
    await room.ask("a", tokens=100)
    await room.ask("b", tokens=100)
    await room.ask("never", tokens=101)
    with pytest.raises(CostExceedsLimit, match="101 tokens"):
        room.tasks["never"].result()


async def test_branches_wait_together_and_get_all_or_none(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(concurrency=3, queue=QUEUE))
    for name in "abc":
        await room.ask(name, tenant=name)
    await room.ask("two", demands=[Demand("t", "m", 1), Demand("t", "n", 1)])
    # Both of its keys are behind it, the order of the keys makes no knot.
    await room.ask("knot", demands=[Demand("t", "n", 1), Demand("t", "m", 1)])
    await room.ask("behind", model="n")
    await room.end("a")
    assert room.waiting == ["two", "knot", "behind"]
    assert room.left() == (1,)
    await room.end("b")
    assert room.order[-1] == "two"
    await room.end("c")
    await room.end("two")
    assert room.order[-2:] == ["knot", "behind"]


def pair(one: str, other: str) -> list[Demand]:
    return [Demand("t", one, 1), Demand("t", other, 1)]


async def test_branches_that_wait_for_a_full_model_keep_nobody_from_a_free_one(
    rooms: list[Room],
) -> None:
    # The free one has no queue: who had to wait behind the branches was refused in the end.
    room = room_of(rooms, Limits(), models={"full": ONE, "free": Limits(concurrency=1)})
    await room.ask("holder", model="full")
    await room.ask("two", demands=pair("free", "full"))
    for name in "ab":
        await room.ask(name, model="free")
        await room.end(name)
    await room.ask("behind", model="full")
    assert room.waiting == ["two", "behind"]
    await room.end("holder")
    assert room.order == ["holder", "a", "b", "two"]


async def test_branches_that_wait_for_one_model_after_the_other_are_passed_in_neither(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, Limits(), models={"m": ONE, "n": ONE})
    await room.ask("m1", model="m")
    await room.ask("two", demands=pair("m", "n"))
    await room.ask("knot", demands=pair("n", "m"))
    await room.ask("n1", model="n")
    await room.ask("n2", model="n")
    await room.end("m1")
    # Their other model has refused them now; its places go to them before who came later.
    await room.ask("m2", model="m")
    assert room.waiting == ["two", "knot", "n2", "m2"]
    await room.end("n1")
    assert room.order[-1] == "two"
    await room.end("two")
    assert room.order[-1] == "knot"
    await room.end("knot")
    assert sorted(room.order[-2:]) == ["m2", "n2"]


@pytest.mark.parametrize("seed", range(5))
async def test_branches_in_any_mixture_never_wait_for_each_other(
    rooms: list[Room], seed: int
) -> None:
    random = Random(seed)
    models = {name: Limits(concurrency=2, queue=QueuePolicy(1000, 600)) for name in "klmn"}
    room = room_of(rooms, Limits(), models=models)
    running = 0
    for number in range(60):
        asked = [Demand("t", name, 1) for name in random.sample("klmn", random.randint(1, 3))]
        await room.ask(str(number), demands=asked, urgency=random.randrange(8))
        if random.random() < 0.4 and running < len(room.order):
            await room.end(room.order[running])
            running += 1
    while running < len(room.order):
        await room.end(room.order[running])
        running += 1
    assert len(room.order) == 60


# data-fair#486, WFA cross-media#4444: waiters that had gone took tokens, and memory.
async def test_779_cancelled_waiters_take_nothing_and_leave_nothing(rooms: list[Room]) -> None:
    limits = Limits(RequestRate(1, 1000), TokenWindow(10_000, 1_000), 1, queue=QUEUE)
    room = room_of(rooms, limits)
    await room.ask("a", tokens=10)
    for number in range(779):
        await room.ask(str(number), tenant=f"t{number % 7}", tokens=10)
    was = room.left()
    for number in range(779):
        room.tasks[str(number)].cancel()
    await settle()
    assert room.admission.waiting == 0
    assert room.left() == was == (999, 9_990, 0)
    line = room.admission._queue._line
    assert (len(line), line._keys, line._refused) == (0, {}, {})
    assert line.next_deadline_ns is None
    assert line._deadlines == []
    await room.end("a")
    await room.ask("next")
    assert room.order == ["a", "next"]


async def test_waiters_that_come_and_go_for_ever_leave_nothing_behind(rooms: list[Room]) -> None:
    room = room_of(rooms, ONE)
    await room.ask("a")
    await room.ask("b")
    for _ in range(500):
        await room.ask("c")
        room.tasks["c"].cancel()
        await asyncio.sleep(0)
    await settle()
    gc.collect()
    line = room.admission._queue._line
    assert len(line) == 1
    assert len(line._deadlines) <= 70


# governor#196: whoever had waited, and then asked, took two permits.
async def test_who_has_waited_holds_one_permit(rooms: list[Room]) -> None:
    limits = Limits(RequestRate(1, burst=1), TokenWindow(100, 60_000), 5, queue=QUEUE)
    room = room_of(rooms, limits)
    await room.ask("a", tokens=10)
    await room.ask("b", tokens=10)
    await room.clock.turn(1)
    assert room.order == ["a", "b"]
    assert room.left() == (0, 80, 3)


async def test_who_is_cancelled_in_the_moment_of_his_admission_gives_it_back(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, ONE)
    await room.ask("a")
    await room.ask("b")
    await room.ask("c")
    for lease in room.leases("a"):
        lease.settle(1)
    await asyncio.sleep(0)
    # Admitted by now, but its task has not heard of it.
    assert (room.left(), room.waiting) == ((0,), ["b", "c"])
    room.tasks["b"].cancel()
    await settle()
    assert room.tasks["b"].cancelled()
    assert room.order == ["a", "c"]
    await room.end("c")
    assert room.left() == (1,)


async def test_the_successor_of_a_cancelled_waiter_is_tried_at_once(rooms: list[Room]) -> None:
    room = room_of(rooms, Limits(tokens=TokenWindow(100, 60_000), queue=QueuePolicy(9, 600)))
    await room.ask("a", tokens=50)
    await room.ask("large", tenant="u", tokens=80)
    await room.ask("small", tenant="v", tokens=10)
    assert room.order == ["a"]
    room.tasks["large"].cancel()
    await settle()
    assert room.order == ["a", "small"]


async def test_those_who_wait_can_be_turned_away(rooms: list[Room]) -> None:
    room = room_of(rooms, ONE)
    for name in "abc":
        await room.ask(name)
    room.admission.turn_away(EngineUnavailable("leaving"))
    await settle()
    for name in "bc":
        with pytest.raises(EngineUnavailable, match="leaving"):
            room.tasks[name].result()
    assert room.left() == (0,)


async def test_leases_that_end_elsewhere_are_found_by_looking_again(rooms: list[Room]) -> None:
    room = room_of(rooms, ONE, poll_ns=100_000_000)
    elsewhere = Admission(room.limiter, room.book, clock=room.clock, scheduler=room.clock)
    held = await elsewhere.admit([Demand("x", "m", 1)])
    assert isinstance(held, list)
    await room.ask("a")
    await room.clock.turn(0.3)
    held[0].settle(1)
    await settle()
    assert room.waiting == ["a"]
    await room.clock.turn(0.151)
    assert room.order == ["a"]


async def test_a_limiter_that_goes_away_fails_those_who_wait_for_it(
    rooms: list[Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = room_of(rooms, ONE)
    for name in "ab":
        await room.ask(name)

    async def away(*_arguments: object) -> Lease:
        raise LimiterUnavailable("away")

    monkeypatch.setattr(room.limiter, "reserve", away)
    await room.end("a")
    with pytest.raises(LimiterUnavailable):
        room.tasks["b"].result()
