"""The hub: from a ring to sleeping readers on a real event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from millstream import _core
from millstream.streams.hub import Hub, Wakeups
from millstream.types import Kind
from tests.waiting import HANG_SECONDS

REQUEST = 7


class Rig:
    """One ring with both ends here, a hub, and whatever the hub reports."""

    def __init__(self) -> None:
        ring = _core.RingConsumer.create(1 << 14)
        self.producer = _core.RingProducer(os.dup(ring.memory_fd()), os.dup(ring.notify_fd()))
        self.memory_fd = ring.memory_fd()
        self.wakeups = Wakeups()
        self.ended: list[int] = []
        self.failed: list[OSError] = []
        self.hub = Hub(self.wakeups, ring, self.ended.append, self.failed.append)
        self.problems: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.problems.append(context))

    def write(self, *texts: str, request: int = REQUEST, kind: Kind = Kind.TOKEN) -> None:
        for text in texts:
            self.producer.write(request, kind, text, token_count=1, time_ns=5)
        self.producer.flush()

    def close(self) -> None:
        self.hub.close()
        self.wakeups.close()


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    rig.close()


def follow(log: _core.Log) -> _core.Reader:
    encoder = _core.Encoder(dialect="native", framing="ndjson", chunk_id="c", model="m", created=1)
    return _core.Reader(log, encoder)


async def settle() -> None:
    """Let the loop look at its descriptors and run what they caused."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_records_wake_the_reader_of_their_request(rig: Rig) -> None:
    log, other = _core.Log(), _core.Log()
    rig.hub.attach(REQUEST, log)
    rig.hub.attach(8, other)
    reader = follow(log)
    waiting = asyncio.create_task(rig.wakeups.wait(reader))
    await settle()
    assert not waiting.done()
    rig.write("a", "b")
    await asyncio.wait_for(waiting, HANG_SECONDS)
    assert reader.take().count(b"\n") == 2
    assert (log.text(), log.first_token_ns, other.tail, rig.hub.dropped) == ("ab", 5, 0, 0)


async def test_wait_returns_at_once_if_something_is_due(rig: Rig) -> None:
    log = _core.Log()
    log.append(Kind.TOKEN, "a", time_ns=1)
    await asyncio.wait_for(rig.wakeups.wait(follow(log)), HANG_SECONDS)
    assert log.waiting == 0


async def test_usage_and_error_end_a_requests_engine_part(rig: Rig) -> None:
    for request in (1, 2, 3):
        rig.hub.attach(request, _core.Log())
    rig.write("x", request=3)
    rig.write("{}", request=1, kind=Kind.USAGE)
    rig.write('{"message":"no"}', request=2, kind=Kind.ERROR)
    await settle()
    assert rig.ended == [1, 2]


async def test_records_of_unknown_and_detached_requests_are_counted(rig: Rig) -> None:
    log = _core.Log()
    rig.hub.attach(REQUEST, log)
    rig.write("a")
    rig.write("b", request=99)
    await settle()
    rig.hub.detach(REQUEST)
    rig.hub.detach(REQUEST)
    rig.write("c")
    rig.write("{}", kind=Kind.USAGE)
    await settle()
    assert (log.text(), rig.hub.dropped, rig.ended) == ("a", 3, [])


async def test_records_for_a_closed_log_are_counted(rig: Rig) -> None:
    log = _core.Log()
    rig.hub.attach(REQUEST, log)
    log.close("cancelled", time_ns=1)
    rig.write("late")
    await settle()
    assert (log.tail, rig.hub.dropped) == (1, 1)


async def test_a_request_is_attached_once(rig: Rig) -> None:
    rig.hub.attach(REQUEST, _core.Log())
    with pytest.raises(ValueError, match="7 is attached already"):
        rig.hub.attach(REQUEST, _core.Log())


async def test_waiters_may_be_callables_and_one_failure_leaves_the_others_awake(rig: Rig) -> None:
    log = _core.Log()
    rig.hub.attach(REQUEST, log)
    readers = [follow(log) for _ in range(5)]
    cancelled, future = (asyncio.get_running_loop().create_future() for _ in range(2))
    cancelled.cancel()
    event = asyncio.Event()
    for reader, waiter in zip(
        readers, [{}.popitem, "no waiter", cancelled, event.set, future], strict=True
    ):
        assert reader.park(waiter, rig.wakeups.notifier)
    rig.write("a")
    await asyncio.wait_for(future, HANG_SECONDS)
    assert event.is_set()
    assert [type(problem.get("exception")) for problem in rig.problems] == [KeyError, type(None)]
    assert "'no waiter' is neither" in rig.problems[1]["message"]


async def test_a_failing_end_callback_leaves_the_others(rig: Rig) -> None:
    ring = _core.RingConsumer.create(1 << 14)
    producer = _core.RingProducer(os.dup(ring.memory_fd()), os.dup(ring.notify_fd()))
    seen: list[int] = []

    def ended(request: int) -> None:
        seen.append(request)
        raise KeyError(request)

    hub = Hub(rig.wakeups, ring, ended, rig.failed.append)
    for request in (1, 2):
        hub.attach(request, _core.Log())
        producer.write(request, Kind.USAGE, "{}", time_ns=1)
    producer.flush()
    await settle()
    hub.close()
    assert seen == [1, 2]
    assert len(rig.problems) == 2


async def test_appends_from_another_thread_wake_the_loop(rig: Rig) -> None:
    log = _core.Log()
    reader = follow(log)
    count = 500

    def produce() -> None:
        pause = threading.Event()
        for number in range(count):
            log.append(Kind.TOKEN, "x", time_ns=number)
            if number % 20 == 0:
                pause.wait(0.0005)
        log.close("completed", time_ns=count)

    thread = threading.Thread(target=produce)
    thread.start()
    frames = 0
    async with asyncio.timeout(HANG_SECONDS):
        while not reader.finished:
            await rig.wakeups.wait(reader)
            frames += reader.take().count(b"\n")
    thread.join()
    assert frames == count + 1


async def test_appends_on_the_loop_itself_wake_too(rig: Rig) -> None:
    log = _core.Log()
    waiting = asyncio.create_task(rig.wakeups.wait(follow(log)))
    await settle()
    log.append(Kind.TOKEN, "a", time_ns=1)
    await asyncio.wait_for(waiting, HANG_SECONDS)


async def test_a_cancelled_wait_leaves_no_waiter(rig: Rig) -> None:
    log = _core.Log()
    waiting = asyncio.create_task(rig.wakeups.wait(follow(log)))
    await settle()
    assert log.waiting == 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert log.waiting == 0


async def test_waiters_of_another_loop_go_through_their_own_notifier(rig: Rig) -> None:
    log, elsewhere = _core.Log(), _core.Notifier()
    rig.hub.attach(REQUEST, log)
    reader = follow(log)
    reader.park("there", elsewhere)
    rig.write("a")
    await settle()
    assert elsewhere.ready() == ["there"]
    assert rig.problems == []


async def test_a_damaged_ring_is_told_once_and_left(rig: Rig) -> None:
    log = _core.Log()
    rig.hub.attach(REQUEST, log)
    reader = follow(log)
    waiting = asyncio.create_task(rig.wakeups.wait(reader))
    await settle()
    rig.producer.write(REQUEST, Kind.TOKEN, "good", time_ns=1)
    rig.producer.write(REQUEST, Kind.TOKEN, "bad!", time_ns=1)
    # Both records are committed before the loop looks; the second text is no UTF-8 any more.
    rig.producer.flush()
    size = os.fstat(rig.memory_fd).st_size
    memory = os.pread(rig.memory_fd, size, 0)
    assert memory.count(b"bad!") == 1
    os.pwrite(rig.memory_fd, b"\xff\xff", memory.index(b"bad!"))
    await asyncio.wait_for(waiting, HANG_SECONDS)
    assert [type(error) for error in rig.failed] == [ConnectionError]
    assert log.text() == "good"
    rig.write("more")
    await settle()
    rig.hub.drain()
    assert len(rig.failed) == 1


async def test_close_takes_the_descriptors_off_the_loop(rig: Rig) -> None:
    log = _core.Log()
    rig.hub.attach(REQUEST, log)
    rig.close()
    rig.close()
    rig.write("a")
    await settle()
    assert log.tail == 0
    loop = asyncio.get_running_loop()
    assert not loop.remove_reader(rig.wakeups.notifier.fileno())


async def test_closing_the_wakeups_wakes_whoever_was_on_the_way(rig: Rig) -> None:
    log = _core.Log()
    future = asyncio.get_running_loop().create_future()
    follow(log)
    reader = follow(log)
    reader.park(future, rig.wakeups.notifier)
    log.append(Kind.TOKEN, "a", time_ns=1)
    rig.wakeups.close()
    assert future.done()
