from __future__ import annotations

import os
import random
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream._core import RingConsumer
from tests.waiting import HANG_SECONDS

_WRITER = Path(__file__).with_name("ring_writer.py")
_Numbers = list[int]


@contextmanager
def _writer(consumer: RingConsumer, limit: int) -> Iterator[subprocess.Popen[bytes]]:
    """A writing process that was handed the ring over a Unix socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, str(_WRITER), str(theirs.fileno()), str(limit)],
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            socket.send_fds(ours, [b"ring"], [consumer.memory_fd(), consumer.notify_fd()])
            yield process
        finally:
            process.kill()
            process.wait()


def _take(consumer: RingConsumer, expected: int) -> int:
    """Check that the next records are whole and in order; returns the number that is next."""
    for stream, time_ns, kind, choice, token_count, text in consumer.drain():
        assert (stream, time_ns) == (expected, expected)
        assert (kind, choice, token_count) == (1, 0, 1)
        assert text == f"{expected} é漢🦀 " * (expected % 9)
        expected += 1
    return expected


def _await_news(consumer: RingConsumer) -> None:
    poll = select.poll()
    poll.register(consumer.fileno(), select.POLLIN)
    assert poll.poll(HANG_SECONDS * 1000)


def test_records_cross_processes_whole_and_in_order() -> None:
    consumer = RingConsumer.create(1 << 16)
    received = 0
    with _writer(consumer, 20_000) as process:
        while received < 20_000:
            _await_news(consumer)
            received = _take(consumer, received)
        assert process.wait(HANG_SECONDS) == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_producer_killed_while_writing_leaves_only_whole_records(seed: int) -> None:
    consumer = RingConsumer.create(1 << 13)
    kill_after = random.Random(seed).randrange(1, 3000)
    received = 0
    with _writer(consumer, 1 << 30) as process:
        while received < kill_after:
            _await_news(consumer)
            received = _take(consumer, received)
        process.kill()
        process.wait()
        received = _take(consumer, received)
    assert received >= kill_after
    assert _take(consumer, received) == received
