"""Whom those who wait hold up, and what others learn of them."""

from __future__ import annotations

from millstream.admission import Limits, QueuePolicy, TokenWindow
from tests.unit.admission.room import ONE, QUEUE, Room, room_of

OWN = {"first": 61, "large": 95, "small": 20}
TWO = Limits(concurrency=2, queue=QUEUE)


async def waiting_for_its_tenant(rooms: list[Room], of_tenant: Limits = ONE) -> Room:
    """A server with room, and one who waits for his tenant after having waited for the server."""
    room = room_of(rooms, TWO, tenants={"x": of_tenant})
    await room.ask("x1", tenant="x")
    await room.ask("y1", tenant="y")
    await room.ask("x2", tenant="x")
    await room.end("y1")
    assert room.waiting == ["x2"]
    return room


async def test_who_waits_for_his_own_tenant_holds_up_no_other_tenant(rooms: list[Room]) -> None:
    room = await waiting_for_its_tenant(rooms)
    await room.ask("z", tenant="z")
    assert room.order == ["x1", "y1", "z"]
    await room.end("x1")
    assert room.order == ["x1", "y1", "z", "x2"]


async def test_those_behind_go_on_when_who_is_ahead_waits_for_his_own_tenant(
    rooms: list[Room],
) -> None:
    room = room_of(rooms, TWO, tenants={"x": ONE})
    await room.ask("x1", tenant="x")
    await room.ask("y1", tenant="y")
    await room.ask("x2", tenant="x")
    await room.ask("z", tenant="z")
    assert room.waiting == ["x2", "z"]
    await room.end("y1")
    assert room.order == ["x1", "y1", "z"]


async def test_who_waits_for_a_model_holds_up_no_other_model(rooms: list[Room]) -> None:
    room = room_of(rooms, TWO, models={"m": ONE})
    await room.ask("m1", tenant="a")
    await room.ask("n1", tenant="b", model="n")
    await room.ask("m2", tenant="c")
    await room.end("n1")
    await room.ask("n2", tenant="d", model="n")
    assert room.order == ["m1", "n1", "n2"]


async def test_who_waits_for_the_server_after_his_tenant_is_passed_in_neither(
    rooms: list[Room],
) -> None:
    room = await waiting_for_its_tenant(rooms)
    await room.ask("z1", tenant="z")
    await room.end("x1")
    assert room.order[-1] == "x2"
    await room.ask("x3", tenant="x")
    await room.end("x2")
    assert room.order[-1] == "x3"


async def test_a_full_queue_of_one_tenant_refuses_no_other(rooms: list[Room]) -> None:
    narrow = Limits(concurrency=1, queue=QueuePolicy(1, 10))
    room = await waiting_for_its_tenant(rooms, narrow)
    await room.ask("z1", tenant="z")
    await room.ask("z2", tenant="z")
    assert room.waiting == ["x2", "z2"]


async def test_a_refusal_behind_another_tenant_tells_of_ones_own_limits(rooms: list[Room]) -> None:
    server = Limits(tokens=TokenWindow(100, 60_000), queue=QueuePolicy(1, 100))
    tenants = {name: Limits(tokens=TokenWindow(size, 60_000)) for name, size in OWN.items()}
    room = room_of(rooms, server, tenants=tenants)
    await room.ask("first", tenant="first", tokens=60)
    await room.ask("ahead", tenant="large", tokens=90)
    await room.ask("behind", tenant="small", tokens=10)
    refusal = room.refusal("behind")
    assert refusal.scope == "global"
    assert refusal.snapshot.tokens is not None
    assert (refusal.snapshot.tokens.scope, refusal.snapshot.tokens.limit) == ("tenant:small", 20)
    assert [scoped.scope for scoped in refusal.limits] == ["global", "tenant:small"]
