"""Each example under a real Granian."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from millstream import SseParser
from tests.e2e.servers import stop
from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]


def listens(url: str) -> bool:
    try:
        return httpx.get(f"{url}/openapi.json").status_code in (200, 401)
    except httpx.TransportError:
        return False


@pytest.fixture
def own_tokens() -> Iterator[str]:
    """The URL of ``examples/own_tokens.py``."""
    with serving("examples.own_tokens:app") as url:
        yield url


@contextmanager
def serving(app: str, **environment: str) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "granian", "--interface", "asgi", "--no-log"]
    command += ["--port", str(port), app]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment})
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: listens(url), what="the example listens")
        yield url
    finally:
        stop(process)


def test_an_app_streams_its_own_tokens(own_tokens: str) -> None:
    parser, events = SseParser(), []
    with httpx.stream("GET", f"{own_tokens}/recite?text=Who rides so late") as answer:
        for chunk in answer.iter_raw():
            events += parser.feed(chunk)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-request-id"]
    assert events[-1].data == "[DONE]"
    choices = [json.loads(event.data)["choices"][0] for event in events[:-1]]
    text = "".join(choice["delta"].get("content", "") for choice in choices)
    assert text == "Who rides so late "
    assert choices[-1]["finish_reason"] == "stop"


def test_an_app_limits_each_address() -> None:
    with serving("examples.limits:app") as url:
        # More than could come back while they are sent: some of them are refused.
        answers = [httpx.get(f"{url}/") for _ in range(40)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert all(answer.headers["retry-after"] == "1" for answer in refused)
    assert all(answer.headers["x-request-id"] for answer in answers)
    assert {answer.status_code for answer in answers} <= {200, 429}


def new_key(environment: dict[str, str], tenant: str, role: str) -> str:
    command = [sys.executable, "-m", "millstream.cli", "keys", "create"]
    command += ["--config", "examples/guarded.toml", "--tenant", tenant, "--role", role]
    made = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return made.stdout.strip()


def test_an_app_lets_in_who_has_a_key_and_limits_each_tenant(tmp_path: Path) -> None:
    environment = {"MILLSTREAM__AUTH__KEYS_FILE": str(tmp_path / "keys.jsonl")}
    writer, reader, other = (
        {"authorization": f"Bearer {new_key(environment, tenant, role)}"}
        for tenant, role in (("acme", "writer"), ("acme", "reader"), ("umbra", "reader"))
    )
    with serving("examples.guarded:app", **environment) as url:
        assert httpx.get(f"{url}/notes").status_code == 401
        assert httpx.put(f"{url}/notes/first", headers=writer).status_code == 200
        assert httpx.get(f"{url}/notes", headers=reader).json() == ["first"]
        assert httpx.get(f"{url}/notes", headers=other).json() == []
        refused = httpx.put(f"{url}/notes/second", headers=reader)
        assert refused.status_code == 403
        assert 'scope="notes:write"' in refused.headers["www-authenticate"]
        assert refused.headers["x-request-id"]
        # More than could come back while they are sent.
        statuses = [httpx.get(f"{url}/notes", headers=reader).status_code for _ in range(40)]
        assert 429 in statuses
        assert httpx.get(f"{url}/notes", headers=other).status_code == 200
