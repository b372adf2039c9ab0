"""Workers are processes: they share their limits, and one that is killed gives its places back."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.integration.valkey_limiter_worker import SCOPES
from tests.integration.valkey_limiters import left_in, limiter_on, until_left
from tests.integration.valkey_server import ValkeyServer


class Worker:
    """A process of `valkey_limiter_worker`."""

    def __init__(self, url: str, lease_seconds: float) -> None:
        arguments = [url, str(lease_seconds)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.valkey_limiter_worker", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, scope: str) -> None:
        pipe(self._process.stdin).write(f"{scope}\n")
        pipe(self._process.stdin).flush()

    def told(self) -> str:
        return pipe(self._process.stdout).readline().strip()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def pipe(found: IO[str] | None) -> IO[str]:
    assert found is not None
    return found


@contextmanager
def running(url: str, count: int, *, lease_seconds: float = 600.0) -> Iterator[list[Worker]]:
    workers = [Worker(url, lease_seconds) for _ in range(count)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.close()


# slowapi#226, flask-limiter#166, litellm#16011: each worker granted the whole limit.
async def test_eight_workers_grant_five_a_minute_together(valkey: ValkeyServer) -> None:
    with running(valkey.url, 8) as workers:
        for worker in workers:
            for _ in range(3):
                worker.ask("five")
        told = await asyncio.to_thread(
            lambda: [worker.told() for worker in workers for _ in range(3)]
        )
    assert told.count("admitted") == 5
    assert told.count("refused") == 19


# litellm#27955, litellm#20256: a place leaked with whoever held it.
async def test_a_killed_worker_gives_its_places_back_and_its_tokens_stay_charged(
    valkey: ValkeyServer,
) -> None:
    held = SCOPES["held"]
    async with limiter_on(valkey.url) as limiter:
        with running(valkey.url, 1, lease_seconds=1.0) as (worker,):
            for _ in range(4):
                worker.ask("held")
            told = await asyncio.to_thread(lambda: [worker.told() for _ in range(4)])
            assert told == ["admitted"] * 3 + ["refused"]
            assert await left_in(limiter, held) == (None, 700, 0)
            worker.kill()
        await until_left(limiter, held, places=3)
        snapshot = await limiter.peek((held,))
        assert snapshot.tokens is not None
        assert snapshot.bytes is not None
        assert (snapshot.tokens.remaining, snapshot.bytes.remaining) == (700, 12)
