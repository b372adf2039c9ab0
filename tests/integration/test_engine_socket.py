"""Server and client over a real socket and a real ring, in one process and without a model."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream._core import Emitter, RingConsumer, Vocabulary
from millstream.engines.base import EngineEnd
from millstream.engines.torch.client import TorchEngine
from millstream.engines.torch.connection import Connection
from millstream.engines.torch.handshake import send_hello
from millstream.engines.torch.link import Link, open_link
from millstream.engines.torch.loop import StepLoop
from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.outlet import Outlet
from millstream.engines.torch.pages import PagePool
from millstream.engines.torch.process import listen
from millstream.engines.torch.protocol import (
    PROTOCOL_VERSION,
    Abort,
    Hello,
    StatsRequest,
    Submit,
    Welcome,
    encode,
)
from millstream.engines.torch.runtime import RuntimeDirectory
from millstream.engines.torch.scheduler import Scheduler
from millstream.engines.torch.server import Server
from millstream.errors import EngineUnavailable
from millstream.types import SamplingParams
from tests.integration.submitted import Submitted, torch_engine
from tests.reference.runner import PagedRunner
from tests.waiting import until_true

TOKENS = [b"%d " % number for number in range(200)]


class GatedRunner(PagedRunner):
    """Runs no step before it is let."""

    def __init__(self) -> None:
        super().__init__(64, page_size=4, max_batch=4, vocabulary=len(TOKENS))
        self.gate = threading.Semaphore(0)
        self.open = False

    def step(self, batch):  # type: ignore[no-untyped-def]
        while not self.open and not self.gate.acquire(timeout=0.05):
            pass
        return super().step(batch)

    def let(self, steps: int | None = None) -> None:
        """Let ``steps`` run, or all from now on."""
        self.open = steps is None
        self.gate.release(steps or 1)


def step_loop(runner: PagedRunner) -> StepLoop:
    scheduler = Scheduler(
        PagePool(runner.num_pages, runner.page_size),
        runner,
        max_batch=runner.max_batch,
        max_step_tokens=16,
        context_length=100,
        expected_output=8,
    )
    outlet = Outlet(Emitter(Vocabulary(TOKENS, [])))
    return StepLoop(scheduler, runner, outlet, vocabulary_size=len(TOKENS), eos_ids=frozenset())


class Stand:
    """An engine in this process, at a place where a client finds it."""

    def __init__(self, path: Path, *, idle_exit_seconds: float = 60) -> None:
        self.directory = RuntimeDirectory(path)
        self.directory.prepare()
        self.runner = GatedRunner()
        self.loop = step_loop(self.runner)
        self.server = Server(listen(self.directory.socket), idle_exit_seconds=idle_exit_seconds)
        self.serving = asyncio.create_task(self.server.serve())
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()
        self.engines: list[TorchEngine] = []

    def loaded(self) -> None:
        welcome = Welcome(PROTOCOL_VERSION, os.getpid(), "twin", 100, 256, 4)
        self.server.loaded.set_result((self.loop, welcome))

    async def engine(self) -> TorchEngine:
        engine = await self.started()
        await engine.wait_ready()
        return engine

    async def started(self) -> TorchEngine:
        """An engine that looks for this one."""
        engine = torch_engine(self.directory, EngineOptions(model="twin"))
        engine.__dict__["tokenizer"] = None  # the twin has none
        self.engines.append(engine)
        await engine.start()
        return engine

    async def settled(self, **expected: int) -> None:
        """Return when the snapshot says so."""
        await until_true(
            lambda: all(getattr(self.loop.snapshot, key) == n for key, n in expected.items())
        )

    async def close(self) -> None:
        for engine in self.engines:
            await engine.close()
        self.server.stop()
        await self.serving
        self.runner.let()
        self.loop.stop()
        await asyncio.to_thread(self.thread.join)


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    path = tempfile.mkdtemp(prefix="millstream-")
    stand = Stand(Path(path))
    stand.loaded()
    yield stand
    await stand.close()
    shutil.rmtree(path)


async def test_a_request_is_answered_over_socket_and_ring(stand: Stand) -> None:
    stand.runner.let()
    engine = await stand.engine()
    answer = await Submitted(engine, 1, [1, 2, 3], max_tokens=5).answer()
    assert answer.usage == {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    assert engine.model_info is not None
    assert engine.model_info.model == "twin"


async def test_two_workers_share_one_engine_and_do_not_see_each_other(stand: Stand) -> None:
    stand.runner.let()
    first, second = await stand.engine(), await stand.engine()
    one = Submitted(first, 1, [1, 2, 3], max_tokens=20)
    two = Submitted(second, 1, [4, 5, 6], max_tokens=20)
    texts = [(await stream.answer()).texts[0] for stream in (one, two)]
    assert texts[0] != texts[1]
    assert (await Submitted(second, 2, [1, 2, 3], max_tokens=20).answer()).texts[0] == texts[0]


async def test_a_worker_that_leaves_frees_its_pages_at_once(stand: Stand) -> None:
    first, second = await stand.engine(), await stand.engine()
    for request in range(6):
        Submitted(first, request, [1, 2, request], max_tokens=50)
    kept = Submitted(second, 1, [9], max_tokens=3)
    stand.runner.let(2)
    await stand.settled(steps=2)
    await first.close()
    await until_true(lambda: len(stand.server._sessions) == 1)
    stand.runner.let()
    assert (await kept.answer()).tokens == 3
    await stand.settled(running=0, waiting=0, pages_used=0, requests_aborted=6)


@pytest.mark.parametrize("steps", [0, 1, 4, 7])
async def test_an_abort_reaches_every_phase_and_silences_the_stream(
    stand: Stand, steps: int
) -> None:
    # A prompt of 60 tokens takes four steps of 16; before the first step it waits.
    # sgl-project/sglang#36333, BerriAI/litellm#31499
    engine = await stand.engine()
    stream = Submitted(engine, 1, list(range(60)), max_tokens=30)
    stand.runner.let(steps) if steps else None
    await stand.settled(steps=steps)
    await until_true(lambda: len(stream.records) >= steps - 3)
    engine.abort(1)
    engine.abort(1)
    seen = len(stream.records)
    assert await engine.stats() is not None  # the socket keeps order: the abort has been read
    stand.runner.let()
    await stand.settled(running=0, waiting=0, pages_used=0, requests_aborted=1)
    assert stand.loop.snapshot.steps <= steps + 2
    assert len(stream.records) == seen
    assert not stream.end.done()


async def test_mass_cancelled_requests_leave_nothing(stand: Stand) -> None:
    # ray-project/ray#52533: one in a hundred cancelled requests runs on.
    stand.runner.let()
    engine = await stand.engine()
    for request in range(1000):
        Submitted(engine, request, [request % 200, 1], max_tokens=30)
        engine.abort(request)
    assert (await Submitted(engine, 1000, [5], max_tokens=3).answer()).tokens == 3
    await stand.settled(running=0, waiting=0, pages_used=0)


async def test_submit_before_the_model_is_loaded_is_refused() -> None:
    path = tempfile.mkdtemp(prefix="millstream-")
    stand = Stand(Path(path))
    engine = await stand.started()
    assert not engine.ready
    with pytest.raises(EngineUnavailable):
        Submitted(engine, 1, [1], max_tokens=1)
    stand.loaded()
    await engine.wait_ready()
    await stand.close()
    shutil.rmtree(path)


async def test_a_request_number_in_use_is_refused_here(stand: Stand) -> None:
    engine = await stand.engine()
    Submitted(engine, 1, [1], max_tokens=5)
    with pytest.raises(ValueError, match="already open"):
        Submitted(engine, 1, [1], max_tokens=5)


async def test_a_prompt_that_cannot_be_encoded_leaves_nothing_open(stand: Stand) -> None:
    stand.runner.let()
    engine = await stand.engine()
    with pytest.raises(OverflowError):
        Submitted(engine, 1, [1 << 70], max_tokens=5)
    assert (await Submitted(engine, 1, [5], max_tokens=3).answer()).tokens == 3


async def test_a_large_prompt_does_not_hold_up_the_event_loop(stand: Stand) -> None:
    # The engine does not read meanwhile: all of it must wait in memory, none of it in the loop.
    engine = await stand.engine()
    for request in range(40):
        Submitted(engine, request, [7] * 100_000, max_tokens=5)
    assert await engine.stats(timeout_seconds=30) is not None


async def test_open_streams_are_told_when_the_engine_closes_and_no_more_can_be_sent(
    stand: Stand,
) -> None:
    engine = await stand.engine()
    streams = [Submitted(engine, request, [1, request], max_tokens=50) for request in range(3)]
    stand.runner.let(3)
    await until_true(lambda: all(stream.records for stream in streams))
    stand.server.stop()
    assert [await stream.end for stream in streams] == [EngineEnd.LOST] * 3
    assert not engine.ready
    with pytest.raises(EngineUnavailable):
        Submitted(engine, 9, [1], max_tokens=1)


async def test_records_in_the_ring_are_delivered_before_the_loss_is_told(stand: Stand) -> None:
    engine = await stand.engine()
    whole = Submitted(engine, 1, [1], max_tokens=3)
    part = Submitted(engine, 2, [2], max_tokens=50)
    assert engine._up is not None
    engine._up.hub.close()  # as if the loop had not come round to the ring yet
    stand.runner.let(4)
    await stand.settled(steps=4)
    assert not whole.records
    stand.server.stop()
    assert (await whole.answer()).tokens == 3
    assert await part.end is EngineEnd.LOST
    assert len(part.records) == 4


async def test_stats_of_an_engine_that_does_not_answer_are_none(stand: Stand) -> None:
    engine = await stand.engine()
    assert (await engine.stats()) is not None
    assert await engine.stats(timeout_seconds=0) is None
    await engine.close()
    assert await engine.stats() is None


async def test_a_hung_step_shows_in_its_age(stand: Stand) -> None:
    # vllm-project/vllm#42897: a thread that hangs in a device call is still alive.
    engine = await stand.engine()
    Submitted(engine, 1, [1], max_tokens=5)
    await stand.settled(waiting=1)
    first = await engine.stats()
    second = await engine.stats()
    assert first is not None
    assert second is not None
    assert second.idle_ns > first.idle_ns > 0
    assert second.waiting + second.running == 1


def raw(stand: Stand) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(str(stand.directory.socket))
    return peer


def hello(version: int = PROTOCOL_VERSION) -> bytes:
    return encode(Hello(version, 1))


def send_with_ring(peer: socket.socket, data: bytes) -> None:
    ring = RingConsumer.create(4096)
    socket.send_fds(peer, [data], [ring.memory_fd(), ring.notify_fd()])


def send_with_two_files(peer: socket.socket, data: bytes) -> None:
    with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as two:
        socket.send_fds(peer, [data], [one.fileno(), two.fileno()])


def send_after_welcome(peer: socket.socket, data: bytes) -> None:
    send_with_ring(peer, hello())
    assert peer.recv(4096)
    peer.sendall(data)


BREACHES = {
    "no descriptors": lambda peer: peer.sendall(hello()),
    "another version": lambda peer: send_with_ring(peer, hello(PROTOCOL_VERSION + 1)),
    "no hello first": lambda peer: send_with_ring(peer, encode(Abort(1))),
    "no ring behind the descriptors": lambda peer: send_with_two_files(peer, hello()),
    "nonsense first": lambda peer: peer.sendall(b"GET / HTTP/1.1\r\n\r\n"),
    "nonsense later": lambda peer: send_after_welcome(peer, b"GET / HTTP/1.1\r\n\r\n"),
    "a second hello": lambda peer: send_after_welcome(peer, hello()),
    "an endless message": lambda peer: send_after_welcome(peer, b"\xff\xff\xff\xff"),
    "a submit of another form": lambda peer: send_after_welcome(peer, b"\x00\x00\x00\x01\x80"),
    "gone without a word": lambda peer: peer.shutdown(socket.SHUT_WR),
}


@pytest.mark.parametrize("breach", BREACHES.values(), ids=BREACHES.keys())
async def test_a_breach_closes_that_connection_only(stand: Stand, breach) -> None:  # type: ignore[no-untyped-def]
    engine = await stand.engine()
    stream = Submitted(engine, 1, [1], max_tokens=3)
    before = len(os.listdir("/proc/self/fd"))
    with raw(stand) as peer:
        await asyncio.to_thread(breach, peer)
        peer.settimeout(30)
        assert await asyncio.to_thread(closed, peer)
    stand.runner.let()
    assert (await stream.answer()).tokens == 3
    await until_true(lambda: len(os.listdir("/proc/self/fd")) <= before)


def closed(peer: socket.socket) -> bool:
    try:
        while peer.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


async def test_a_worker_that_closes_before_the_welcome_leaves_no_session() -> None:
    path = tempfile.mkdtemp(prefix="millstream-")
    stand = Stand(Path(path), idle_exit_seconds=0.05)
    with raw(stand) as peer:
        ring = RingConsumer.create(4096)
        send_hello(peer, ring.memory_fd(), ring.notify_fd())
    await stand.serving  # idle: it ends by itself
    await stand.close()
    shutil.rmtree(path)


async def test_an_engine_without_workers_ends_and_one_with_a_worker_stays() -> None:
    path = tempfile.mkdtemp(prefix="millstream-")
    stand = Stand(Path(path), idle_exit_seconds=0.2)
    stand.loaded()
    engine = await stand.engine()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(stand.serving), 0.5)
    await engine.close()
    await stand.serving
    await stand.close()
    shutil.rmtree(path)


async def test_a_peer_that_does_not_read_is_given_up(stand: Stand) -> None:
    def ignore(link: Link) -> None:
        pass

    link = await open_link(stand.directory.socket, ignore)
    assert link is not None
    await link.welcomed()
    transport = link.connection._transport
    assert transport is not None
    transport.pause_reading()
    stand.runner.let()
    connection: Connection[object] = next(iter(stand.server._sessions)).connection  # type: ignore[assignment]
    fat = Submit(1, [1 << 40] * 1_000_000, SamplingParams(max_tokens=1))
    sent = 0
    while connection.send(fat):
        sent += 1
    assert 4 <= sent <= 9
    assert connection.fault == "the peer does not read"
    assert not connection.send(StatsRequest(1))
    link.connection.close()
    await link.lost.wait()


async def test_nothing_listens_at_an_empty_place(tmp_path: Path) -> None:
    def ignore(link: Link) -> None:
        pass

    assert await open_link(tmp_path / "none", ignore) is None
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "stale"))
    stale.close()
    assert await open_link(tmp_path / "stale", ignore) is None
