from __future__ import annotations

import asyncio

import pytest

from millstream.durable import Created, Creation, DurableStreams, Reason, Refusal
from millstream.durable.expiry import ExpiresAt, Expiry, TimeToLive
from millstream.durable.registry import STREAM_BYTES
from tests.unit.durable.making import JSON, KEY, SECOND, TEXT, appended, created, registry, text
from tests.waiting import HANG_SECONDS


def reason(answer: object) -> Reason:
    assert isinstance(answer, Refusal), answer
    return answer.reason


def test_a_stream_is_found_by_its_tenant_and_path_alone() -> None:
    streams = registry()
    made = created(streams, Creation(TEXT))

    assert streams.find(KEY, 0) is made
    assert streams.find(("other", "a"), 0) is None
    assert streams.find(("default", "b"), 0) is None


def test_creating_again_in_the_same_way_finds_the_stream() -> None:
    streams = registry()
    made = created(streams, Creation(TEXT, TimeToLive(5), body=b"x"))

    again = streams.create(KEY, Creation(TEXT, TimeToLive(5), body=b"y"), now_ns=0, unix_ns=0)

    assert again == Created(made, new=False)
    assert made.read(0, 10).data == b"x"


@pytest.mark.parametrize(
    "other", [Creation(JSON), Creation(TEXT, TimeToLive(5)), Creation(TEXT, closed=True)]
)
def test_creating_in_another_way_is_a_conflict(other: Creation) -> None:
    streams = registry()
    created(streams, Creation(TEXT))

    assert reason(streams.create(KEY, other, now_ns=0, unix_ns=0)) is Reason.CONFIGURATION


def test_a_stream_may_be_created_closed_with_its_content() -> None:
    made = created(registry(), Creation(TEXT, closed=True, body=b"all"))

    assert (made.closed, made.read(0, 10).data) == (True, b"all")


def test_a_creation_with_a_bad_body_leaves_nothing_behind() -> None:
    streams = registry()

    answer = streams.create(KEY, Creation(JSON, body=b"{"), now_ns=0, unix_ns=0)

    assert reason(answer) is Reason.NOT_JSON
    assert (len(streams), streams.used_bytes) == (0, 0)


def test_an_empty_array_creates_an_empty_stream() -> None:
    assert created(registry(), Creation(JSON, body=b"[]")).tail == 0


def test_the_number_of_streams_is_bounded_and_a_deleted_one_makes_room() -> None:
    streams = registry(max_streams=2)
    for path in "ab":
        created(streams, Creation(TEXT), ("default", path))

    answer = streams.create(("default", "c"), Creation(TEXT), now_ns=0, unix_ns=0)
    assert reason(answer) is Reason.TOO_MANY_STREAMS
    assert isinstance(answer, Refusal)
    assert "durable.max_streams = 2" in answer.message

    assert streams.delete(("default", "a"), 0)
    created(streams, Creation(TEXT), ("default", "c"))


def test_all_bytes_together_are_bounded_and_come_back_with_a_streams_end() -> None:
    streams = registry(max_bytes=8192)
    first = created(streams, Creation(TEXT), ("default", "a"))
    second = created(streams, Creation(TEXT), ("default", "b"))
    appended(first.append(text(b"x" * 5000), 0))

    answer = second.append(text(b"x" * 5000), 0)
    assert reason(answer) is Reason.STORE_FULL
    assert isinstance(answer, Refusal)
    assert "durable.max_bytes = 8192" in answer.message

    streams.delete(("default", "a"), 0)
    appended(second.append(text(b"x" * 5000), 0))
    assert streams.used_bytes == STREAM_BYTES + 1 + 5000
    streams.close()
    assert streams.used_bytes == 0


@pytest.mark.parametrize("expiry", [TimeToLive(5), ExpiresAt(5 * SECOND)])
def test_a_stream_is_gone_when_its_time_is_over(expiry: Expiry) -> None:
    streams = registry()
    made = created(streams, Creation(TEXT, expiry))

    assert streams.find(KEY, 5 * SECOND - 1) is made
    assert streams.find(KEY, 5 * SECOND) is None
    assert made.gone
    assert not streams.delete(KEY, 5 * SECOND)
    created(streams, Creation(JSON), now_ns=5 * SECOND)


def test_a_write_prolongs_idle_time_but_no_instant() -> None:
    streams = registry()
    idle = created(streams, Creation(TEXT, TimeToLive(5)), ("default", "idle"))
    fixed = created(streams, Creation(TEXT, ExpiresAt(5 * SECOND)), ("default", "fixed"))
    for made in (idle, fixed):
        appended(made.append(text(b"x"), 4 * SECOND))

    streams.sweep(6 * SECOND)

    assert (idle.gone, fixed.gone) == (False, True)
    streams.sweep(9 * SECOND)
    assert idle.gone


def test_a_refused_write_prolongs_nothing() -> None:
    streams = registry()
    made = created(streams, Creation(TEXT, TimeToLive(5)))
    made.append(text(b""), 4 * SECOND)

    streams.sweep(5 * SECOND)

    assert made.gone


def test_a_live_reader_keeps_idle_time_from_passing() -> None:
    streams, now = registry(), [0]
    made = created(streams, Creation(TEXT, TimeToLive(5)))
    with made.reading(lambda: now[0]):
        for second in (6, 12, 18):
            streams.sweep(second * SECOND)
            assert streams.find(KEY, second * SECOND) is made
        now[0] = 20 * SECOND

    assert streams.find(KEY, 24 * SECOND) is made
    streams.sweep(25 * SECOND)
    assert made.gone


def test_a_live_reader_does_not_stop_an_instant() -> None:
    streams = registry()
    made = created(streams, Creation(TEXT, ExpiresAt(5 * SECOND)))
    with made.reading(lambda: 0):
        streams.sweep(5 * SECOND)
        assert made.gone


def test_no_idle_time_at_all_ends_a_stream_that_nobody_reads() -> None:
    streams = registry()
    made = created(streams, Creation(TEXT, TimeToLive(0)))
    with made.reading(lambda: 0):
        streams.sweep(0)
        assert not made.gone
    streams.sweep(1)
    assert made.gone


async def wait(streams: DurableStreams) -> asyncio.Task[None]:
    found = streams.find(KEY, 0)
    assert found is not None
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(found.waiters.wait(60, never))
    await asyncio.sleep(0)
    return task


async def test_readers_see_that_their_stream_has_expired() -> None:
    # assistant-ui#3979 (review): the time passed while a reader waited, and it hung.
    streams = registry()
    created(streams, Creation(TEXT, TimeToLive(5)))
    task = await wait(streams)

    streams.sweep(5 * SECOND)

    await asyncio.wait_for(task, HANG_SECONDS)


async def test_readers_are_let_go_when_the_worker_leaves() -> None:
    leaving = [False]
    streams = registry()
    streams._leaving = lambda: leaving[0]
    created(streams, Creation(TEXT))
    task = await wait(streams)
    streams.sweep(0)
    await asyncio.sleep(0)
    assert not task.done()

    leaving[0] = True
    streams.sweep(1)

    await asyncio.wait_for(task, HANG_SECONDS)
    assert streams.leaving
