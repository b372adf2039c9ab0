"""Peers that break the protocol, leave early or do not read: only their own connection ends."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from millstream._core import RingConsumer
from millstream.engines.torch.connection import Connection
from millstream.engines.torch.handshake import send_hello
from millstream.engines.torch.link import Link, open_link
from millstream.engines.torch.protocol import (
    PROTOCOL_VERSION,
    Abort,
    Hello,
    StatsRequest,
    Submit,
    encode,
)
from millstream.types import SamplingParams
from tests.integration.stand import Stand
from tests.integration.submitted import Submitted
from tests.waiting import until_true


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
