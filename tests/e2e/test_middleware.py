"""The chain of a real server: names, lines, the audit trail and hooks, in every ending."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.hooked_app import HEARD
from tests.e2e.http1 import Connection
from tests.e2e.servers import MODEL, Server, serving
from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
CHAT, STREAMS = "/v1/chat/completions", "/v1/streams"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def asked(**fields: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "Count to five hundred in words. Swordfish."}]
    return {"model": MODEL, "messages": messages, "max_tokens": 8, "ignore_eos": True, **fields}


@dataclass(frozen=True)
class Watched:
    """A server, and what its chain has written of each request."""

    server: Server
    folder: Path

    def lines(self, request_id: str) -> list[dict[str, Any]]:
        """The access log."""
        lines = (line for line in self.server.log.read_text().splitlines() if line[:1] == "{")
        return self._of(request_id, lines, logger="millstream.access")

    def trail(self, request_id: str) -> list[dict[str, Any]]:
        """The audit trail."""
        return self._of(request_id, (self.folder / "audit.jsonl").read_text().splitlines())

    def heard(self, request_id: str) -> list[dict[str, Any]]:
        """What the hook has heard."""
        return self._of(request_id, (self.folder / "heard.jsonl").read_text().splitlines())

    def outcome(self, request_id: str) -> dict[str, Any]:
        """The last thing that the hook hears."""
        found: list[dict[str, Any]] = []

        def ended() -> bool:
            found[:] = [one for one in self.heard(request_id) if one["event"] == "outcome"]
            return bool(found)

        until(ended, what="an outcome")
        (outcome,) = found
        return outcome

    @staticmethod
    def _of(request_id: str, lines: Any, **wanted: str) -> list[dict[str, Any]]:
        wanted["request_id"] = request_id
        found = [json.loads(line) for line in lines]
        return [one for one in found if wanted.items() <= one.items()]


@contextlib.contextmanager
def watching(folder: Path) -> Iterator[Watched]:
    """Granian with the user's own module around the app."""
    port = free_port()
    config = folder / "millstream.toml"
    config.write_text(
        f'[models."{MODEL}"]\nroutes = [{{ engine = "local" }}]\n'
        "[engines.local]\nthreads = 2\nmax_batch = 8\nkv_tokens = 12288\n"
        '[log]\naccess = true\nformat = "json"\n'
        f'[audit]\nkind = "file"\npath = "{folder}/audit.jsonl"\n'
        "[server]\ndrain_seconds = 1\n"
    )
    (folder / "heard.jsonl").touch()
    command = [
        sys.executable, "-m", "granian", "--interface", "asgi", "--host", "127.0.0.1",
        "--port", str(port), "--working-dir", str(ROOT), "tests.e2e.hooked_app:app",
    ]  # fmt: skip
    environment = {"MILLSTREAM_CONFIG": str(config), HEARD: str(folder / "heard.jsonl")}
    with serving(command, port=port, folder=folder, environment=environment) as server:
        yield Watched(server, folder)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watching(tmp_path_factory.mktemp("middleware")) as running:
        yield running


def post(watched: Watched, path: str, name: str, **fields: object) -> httpx.Response:
    return httpx.post(
        f"{watched.server.url}{path}",
        json=asked(**fields),
        headers={"x-request-id": name},
        timeout=60,
    )


@pytest.mark.parametrize("stream", [False, True])
def test_a_generation_leaves_a_line_a_record_and_three_events(
    watched: Watched, stream: bool
) -> None:
    name = f"whole-{stream}"
    answered = post(watched, CHAT, name, stream=stream)
    assert answered.status_code == 200
    assert answered.headers["x-flow-id"] == name
    ended = watched.outcome(name)
    assert (ended["status"], ended["outcome"], ended["partial"]) == (200, "length", False)
    assert ended["usage"]["completion_tokens"] == 8
    assert [one["event"] for one in watched.heard(name)] == ["admitted", "first_byte", "outcome"]
    until(lambda: watched.lines(name), what="an access line")
    (line,) = watched.lines(name)
    assert (line["method"], line["path"], line["status"]) == ("POST", CHAT, 200)
    assert line["outcome"] == "length"
    assert 0 < line["first_byte_ms"] <= line["duration_ms"]
    (record,) = watched.trail(name)
    assert (record["route"], record["tenant"]) == (CHAT, "default")
    assert (watched.folder / "audit.jsonl").stat().st_mode & 0o777 == 0o600
    assert "Swordfish" not in watched.server.log.read_text()
    assert "Swordfish" not in (watched.folder / "audit.jsonl").read_text()


def test_a_client_that_leaves_a_stream_is_its_outcome(watched: Watched) -> None:
    with Connection(watched.server.port) as client:
        client.post(CHAT, asked(stream=True, max_tokens=1500), "X-Request-Id: leaves")
        client.read_until(b"data: ")
    ended = watched.outcome("leaves")
    assert (ended["status"], ended["outcome"], ended["partial"]) == (200, "client_gone", True)
    assert ended["usage"]["completion_tokens"] < 1500
    until(lambda: watched.lines("leaves"), what="an access line")
    assert watched.lines("leaves")[0]["outcome"] == "client_gone"
    assert watched.trail("leaves")[0]["outcome"] == "client_gone"


def test_a_client_that_leaves_before_its_answer_is_a_499(watched: Watched) -> None:
    with Connection(watched.server.port) as client:
        client.post(CHAT, asked(stream=False, max_tokens=1500), "X-Request-Id: impatient")
        until(lambda: watched.heard("impatient"), what="an admission")
    ended = watched.outcome("impatient")
    assert (ended["status"], ended["outcome"]) == (499, "client_gone")
    until(lambda: watched.lines("impatient"), what="an access line")
    assert watched.lines("impatient")[0]["status"] == 499


def test_a_resumable_stream_has_its_outcome_after_its_connection(watched: Watched) -> None:
    with Connection(watched.server.port) as client:
        client.post(STREAMS, asked(max_tokens=200), "X-Request-Id: returns")
        client.read_until(b"event: token")
        name = client.header("x-stream-id")
    until(lambda: watched.lines("returns"), what="an access line")
    assert watched.lines("returns")[0]["outcome"] == "detached"
    ended = watched.outcome("returns")
    assert (ended["outcome"], ended["stream_id"]) == ("length", name)
    assert ended["usage"]["completion_tokens"] == 200


def test_a_refusal_has_its_line_and_its_outcome(watched: Watched) -> None:
    assert post(watched, CHAT, "refused", model="none").status_code == 404
    assert watched.outcome("refused")["outcome"] == "refused"
    assert [one["event"] for one in watched.heard("refused")] == ["first_byte", "outcome"]
    until(lambda: watched.lines("refused"), what="an access line")


def test_nothing_that_a_client_sends_makes_a_line_of_its_own(watched: Watched) -> None:
    path = "/%0A%7B%22event%22%3A%22forged%22%7D%0D%0A%1B%5B2J%E2%80%AE"
    with Connection(watched.server.port) as client:
        client.get(f"{path}?token=secret", "X-Request-Id: hostile", "X-Flow-Id: a b")
        assert client.read_head() == 404
        assert client.header("x-flow-id") == "hostile"
    until(lambda: watched.lines("hostile"), what="an access line")
    (line,) = watched.lines("hostile")
    assert line["path"].isprintable()
    assert "secret" not in line["path"]
    assert not any(text.startswith('{"event":"forged"') for text in _log(watched))


def test_a_trace_names_the_flow(watched: Watched) -> None:
    with Connection(watched.server.port) as client:
        client.get("/v1/models", f"traceparent: 00-{TRACE}-b7ad6b7169203331-01")
        assert client.read_head() == 200
        assert client.header("x-flow-id") == TRACE


def test_hooks_hear_how_the_last_stream_ends(tmp_path: Path) -> None:
    with watching(tmp_path) as watched, Connection(watched.server.port) as client:
        client.post(CHAT, asked(stream=True, max_tokens=3000), "X-Request-Id: last")
        client.read_until(b"data: ")
        os.kill(watched.server.process.pid, signal.SIGTERM)
        watched.server.process.wait(60)
        (*_, ended) = watched.heard("last")
    assert (ended["event"], ended["outcome"], ended["partial"]) == ("outcome", "shed", True)


def _log(watched: Watched) -> list[str]:
    return watched.server.log.read_text().splitlines()
