"""Killed processes: what clients see, and what comes back by itself."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import assert_idle
from tests.e2e.http1 import Connection, events
from tests.e2e.servers import (
    Server,
    granian_command,
    millstream_command,
    serving,
)
from tests.e2e.test_http1 import CHAT, chat
from tests.ports import free_port
from tests.waiting import until


def engine_pids(folder: Path) -> list[int]:
    """Engine processes whose runtime directory lies in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if b"millstream.engines.torch.process" in command and str(folder).encode() in command:
            found.append(int(process.name))
    return found


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture
def own_server(config: Path, folder: Path) -> Iterator[Server]:
    """A server that the test may hurt."""
    port = free_port()
    with serving(millstream_command(port, config), port=port, folder=folder) as running:
        yield running


def test_a_killed_engine_ends_its_streams_and_comes_back(own_server: Server, folder: Path) -> None:
    workers = own_server.workers()
    with Connection(own_server.port) as client, Connection(own_server.port) as whole:
        client.post(CHAT, chat(max_tokens=1500, ignore_eos=True))
        whole.post(CHAT, chat(max_tokens=1500, ignore_eos=True, stream=False))
        client.read_until(b"data: ")
        until(lambda: own_server.metric("millstream_engine_batch_size") == 2)
        (engine,) = engine_pids(folder)
        os.kill(engine, signal.SIGKILL)
        client.read_all()
        assert not client.complete
        last = events(client.body)[-1]
        assert isinstance(last, dict)
        assert last["error"]["code"] == "engine_lost"
        assert whole.read_head() == 502
    assert not own_server.ready()
    refused = httpx.post(f"{own_server.url}{CHAT}", json=chat(max_tokens=1), timeout=120)
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "engine_unavailable"
    assert int(refused.headers["retry-after"]) > 0
    until(own_server.ready)
    answer = httpx.post(
        f"{own_server.url}{CHAT}", json=chat(max_tokens=2, stream=False), timeout=60
    )
    assert answer.status_code == 200
    assert own_server.workers() == workers
    assert own_server.metric("millstream_requests_total", outcome="engine_lost") == 2
    assert_idle(own_server)


def test_an_engine_that_stands_still_is_not_ready_until_it_goes_on(
    own_server: Server, folder: Path
) -> None:
    (engine,) = engine_pids(folder)
    os.kill(engine, signal.SIGSTOP)
    try:
        until(lambda: not own_server.ready(), what="not ready")
    finally:
        os.kill(engine, signal.SIGCONT)
    until(own_server.ready, what="ready again")


def test_a_killed_worker_frees_its_requests_and_the_engine_stays(
    config: Path, folder: Path
) -> None:
    port = free_port()
    command = granian_command(port, "--workers", "2", "--respawn-failed-workers")
    environment = {"MILLSTREAM_CONFIG": str(unlimited(config, folder))}
    with serving(command, port=port, folder=folder, environment=environment) as server:
        until(lambda: len(server.workers()) >= 2)
        engines = engine_pids(folder)
        assert len(engines) == 1
        clients = [Connection(port) for _ in range(6)]
        for client in clients:
            client.post(CHAT, chat(max_tokens=1500, ignore_eos=True))
        until(lambda: server.metric("millstream_engine_batch_size") == 6)
        victims = [pid for pid in server.workers() if is_worker(pid)]
        # Which of them took the connections, nobody tells; the one with most has three at least.
        victims.sort(key=sockets, reverse=True)
        os.kill(victims[0], signal.SIGKILL)
        until(lambda: batch_size_of_the_survivor(server) < 6)
        os.kill(victims[1], signal.SIGKILL)
        for client in clients:
            client.read_all()
            assert not client.complete
            client.close()
        until(server.ready)
        until(lambda: server.metric("millstream_engine_batch_size") == 0)
        until(lambda: server.metric("millstream_kv_blocks_used") == 0)
        assert engine_pids(folder) == engines
        answer = httpx.post(
            f"{server.url}{CHAT}", json=chat(max_tokens=2, stream=False), timeout=60
        )
        assert answer.status_code == 200


def sockets(pid: int) -> int:
    """How many a process holds."""
    found = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it may close one meanwhile
            found += str(entry.readlink()).startswith("socket:")
    return found


def batch_size_of_the_survivor(server: Server) -> float:
    """As ever, until a request does not reach the worker that has just been killed."""
    try:
        return server.metric("millstream_engine_batch_size")
    except httpx.TransportError:
        return math.inf


@pytest.mark.parametrize("workers", [1, 2])
def test_granian_runs_the_app_and_all_workers_share_one_engine(
    config: Path, folder: Path, workers: int
) -> None:
    port = free_port()
    path = unlimited(config, folder)
    command = granian_command(port, "--workers", str(workers))
    environment = {"MILLSTREAM_CONFIG": str(path)}
    with serving(command, port=port, folder=folder, environment=environment) as server:
        for _ in range(8):
            answer = httpx.post(
                f"{server.url}{CHAT}", json=chat(max_tokens=2, stream=False), timeout=120
            )
            assert answer.status_code == 200
        assert server.metric("millstream_requests_total") == 8
        assert len(engine_pids(folder)) == 1


def test_several_workers_with_limits_in_memory_do_not_start(config: Path, folder: Path) -> None:
    # slowapi#226, flask-limiter#166: 8 workers admitted eight times the limit.
    port = free_port()
    command = granian_command(port, "--workers", "2")
    ended = subprocess.run(
        command,
        env={**os.environ, "MILLSTREAM_CONFIG": str(config), "XDG_RUNTIME_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    assert ended.returncode != 0
    assert b"server.workers = 1" in ended.stdout


def test_a_server_that_is_told_to_leave_lets_streams_finish(own_server: Server) -> None:
    with Connection(own_server.port) as client:
        client.post(CHAT, chat(max_tokens=60, ignore_eos=True))
        client.read_until(b"data: ")
        own_server.process.send_signal(signal.SIGTERM)
        client.read_all()
        assert client.complete
        assert events(client.body)[-1] == "[DONE]"
    assert own_server.process.wait(120) is not None


def test_workers_whose_server_was_killed_finish_their_streams_and_leave(
    own_server: Server,
) -> None:
    # They served on for ever, and the next server found its port taken.
    (worker,) = [pid for pid in own_server.workers() if is_worker(pid)]
    with Connection(own_server.port) as client:
        client.post(CHAT, chat(max_tokens=60, ignore_eos=True))
        client.read_until(b"data: ")
        own_server.process.kill()
        client.read_all()
        assert client.complete
        assert events(client.body)[-1] == "[DONE]"
    until(lambda: ended(worker), what="the worker has ended")


def unlimited(config: Path, folder: Path) -> Path:
    """The configuration without limits, which one process alone may keep in memory."""
    path = folder / "unlimited.toml"
    kept = [line for line in config.read_text().splitlines() if not line.startswith("limits")]
    path.write_text("\n".join(kept))
    return path


def ended(pid: int) -> bool:
    """Whether the process is gone, or waits only for somebody to ask how it ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b""
    except OSError:
        return True


def is_worker(pid: int) -> bool:
    """Whether this child of Granian answers requests (it also has helpers)."""
    return b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()
