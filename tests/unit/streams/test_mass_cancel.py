"""A thousand streams given up in the same moment leave nothing behind.

ray-project/ray#52533: 1 % of mass-cancelled requests kept running; litellm#27955: slots leaked on
cancel. Everything but the model is real: ring, hub, logs, limiter, deliveries.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest
from starlette.types import Message

from millstream._core import Log, Reader
from millstream.admission import Admission, LimitBook, Limits, MemoryLimiter, TokenWindow
from millstream.config import StreamPolicy
from millstream.streams.branch import Deadlines
from millstream.streams.deliveries import Deliveries
from millstream.streams.directory import Directory
from millstream.streams.drain import Drain
from millstream.streams.encoding import encoder_for
from millstream.streams.hub import Wakeups
from millstream.streams.orchestrator import BranchRequest, Generation, Orchestrator
from millstream.streams.registry import StreamRegistry
from millstream.streams.response import StreamResponse
from millstream.streams.stream import Stream
from millstream.streams.timers import StreamTimers
from millstream.types import Outcome, SamplingParams
from tests.unit.streams.parts import SECOND, Heard, KeepingStore
from tests.unit.streams.ring_engine import RingEngine

STREAMS = 1000


class Connection:
    """A client that takes everything and leaves when told."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.received = 0

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.received += len(message.get("body", b""))


class Worker:
    """One worker's parts, and the requests that it answers."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.wakeups = Wakeups()
        self.engine = RingEngine(self.wakeups)
        self.registry, self.store, self.heard = StreamRegistry(), KeepingStore(), Heard()
        self.limiter = MemoryLimiter(clock=lambda: 0)
        self.book = LimitBook(Limits(tokens=TokenWindow(1 << 30, 1000), concurrency=2 * STREAMS))
        self.drain = Drain(self.registry, seconds=0, shared=True, clock=lambda: self.now_ns)
        self.orchestrator = Orchestrator(
            registry=self.registry,
            admission=Admission(self.limiter, self.book, clock=lambda: self.now_ns),
            drain=self.drain,
            observer=self.heard,
            store=self.store,
            clock=lambda: self.now_ns,
            wall_clock=lambda: 0,
        )
        self.directory = Directory(self.registry, self.store, self.wakeups)
        self.timers = StreamTimers(self.registry)
        self.deliveries = Deliveries(self.wakeups.notifier)
        self.tasks: list[asyncio.Task[None]] = []
        self.connections: list[Connection] = []

    async def open(self, *, resumable: bool = False) -> Stream:
        branch = BranchRequest(
            model="m",
            engine=self.engine,
            prompt=[1, 2],
            params=SamplingParams(max_tokens=5),
            deadlines=Deadlines(first_token_ns=SECOND, idle_ns=SECOND),
        )
        stream = await self.orchestrator.open(
            Generation(
                route="chat.completion",
                dialect="chat",
                id_prefix="chatcmpl-",
                branches=(branch,),
                streamed=True,
                policy=StreamPolicy(detach_grace_seconds=1),
                resumable=resumable,
            )
        )
        assert isinstance(stream, Stream)
        self._follow(stream)
        return stream

    def _follow(self, stream: Stream) -> None:
        reader = Reader(stream.log, encoder_for(stream.descriptor))
        response = StreamResponse(stream, reader, deliveries=self.deliveries)
        connection = Connection()
        call = response({"type": "http"}, connection.receive, connection.send)
        self.tasks.append(asyncio.create_task(call))
        self.connections.append(connection)

    def write_a_token_for_each(self) -> None:
        for request in tuple(self.engine.requests):
            self.engine.token(request)
        self.engine.flush()

    def close(self) -> None:
        self.engine.hub.close()
        self.wakeups.close()

    @property
    def leases(self) -> int:
        slots = self.limiter.try_peek(self.book.scopes("default", "m")).concurrency
        assert slots is not None
        return slots.limit - slots.remaining

    def assert_nothing_left(self, logs: list[Log]) -> None:
        assert (len(self.registry), self.leases) == (0, 0)
        assert (self.engine.attached, self.engine.requests) == (0, {})
        assert sum(log.waiting for log in logs) == 0
        assert all(log.closed for log in logs)
        assert len(self.deliveries._deliveries) == 0
        assert len(self.heard.events) == 2 * len(logs)


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    made = Worker()
    yield made
    made.close()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def leave(worker: Worker, streams: list[Stream]) -> None:
    for connection in worker.connections:
        connection.gone.set()


async def cancel(worker: Worker, streams: list[Stream]) -> None:
    await asyncio.gather(
        *(worker.directory.cancel(stream.id, "default") for stream in streams for _ in range(2))
    )


async def shed(worker: Worker, streams: list[Stream]) -> None:
    worker.drain.begin()
    worker.drain.sweep(worker.now_ns)


async def time_out(worker: Worker, streams: list[Stream]) -> None:
    worker.timers.sweep(0)
    worker.timers.sweep(SECOND + 1)


async def kill(worker: Worker, streams: list[Stream]) -> None:
    for task in worker.tasks:
        task.cancel()


@pytest.mark.parametrize("tokens", [0, 1])
@pytest.mark.parametrize(
    ("end", "outcomes"),
    [
        (leave, {Outcome.CLIENT_GONE}),
        (cancel, {Outcome.CANCELLED}),
        (shed, {Outcome.SHED}),
        (time_out, {Outcome.TIMEOUT_FIRST_TOKEN, Outcome.TIMEOUT_IDLE}),
        (kill, {Outcome.CLIENT_GONE}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_plain_streams_leave_nothing(
    worker: Worker, tokens: int, end: object, outcomes: set[Outcome]
) -> None:
    assert callable(end)
    tasks = asyncio.all_tasks()
    streams = [await worker.open() for _ in range(STREAMS)]
    await settle()
    if tokens:
        worker.write_a_token_for_each()
        await settle()
    assert worker.leases == worker.engine.attached == STREAMS
    assert all((connection.received > 0) == bool(tokens) for connection in worker.connections)
    await end(worker, streams)
    await asyncio.gather(*worker.tasks, return_exceptions=True)
    await settle()
    assert {stream.outcome for stream in streams} <= outcomes
    worker.assert_nothing_left([stream.log for stream in streams])
    assert asyncio.all_tasks() == tasks
    assert worker.store.kept == {}


async def test_clients_that_leave_before_they_were_served_leave_nothing(worker: Worker) -> None:
    tasks = asyncio.all_tasks()
    streams = [await worker.open() for _ in range(STREAMS)]
    await leave(worker, streams)
    await asyncio.gather(*worker.tasks)
    await settle()
    assert {stream.outcome for stream in streams} == {Outcome.CLIENT_GONE}
    worker.assert_nothing_left([stream.log for stream in streams])
    assert asyncio.all_tasks() == tasks


async def test_resumable_streams_outlive_their_clients_and_then_leave_only_what_is_kept(
    worker: Worker,
) -> None:
    tasks = asyncio.all_tasks()
    streams = [await worker.open(resumable=True) for _ in range(STREAMS)]
    await settle()
    worker.write_a_token_for_each()
    await leave(worker, streams)
    await asyncio.gather(*worker.tasks)
    assert {stream.outcome for stream in streams} == {None}
    assert worker.leases == STREAMS
    worker.timers.sweep(SECOND + 1)
    worker.assert_nothing_left([stream.log for stream in streams])
    assert worker.store.kept.keys() == {stream.id for stream in streams}
    await settle()
    assert asyncio.all_tasks() == tasks


async def test_late_records_of_streams_that_are_gone_disturb_nobody(worker: Worker) -> None:
    streams = [await worker.open() for _ in range(10)]
    await settle()
    requests = tuple(worker.engine.requests)
    await cancel(worker, streams[:9])
    for request in requests:
        worker.engine.token(request)
    worker.engine.flush()
    await settle()
    assert [stream.log.token_count for stream in streams] == [0] * 9 + [1]
    assert worker.engine.hub.dropped == 9
    await cancel(worker, streams)
    await asyncio.gather(*worker.tasks)


async def test_a_stream_that_is_over_is_let_go_of(worker: Worker) -> None:
    stream = await worker.open()
    gone = weakref.ref(stream)
    await leave(worker, [stream])
    await asyncio.gather(*worker.tasks)
    worker.tasks.clear()
    del stream
    await settle()
    gc.collect()
    assert gone() is None
