"""Settings that change under a real server while it streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.http1 import Connection
from tests.e2e.servers import MODEL, Server, millstream_command, serving
from tests.e2e.test_http1 import CHAT, chat
from tests.integration.valkey_server import ValkeyServer
from tests.ports import free_port
from tests.waiting import until

BASE = f"""
[engines.local]
model = "{MODEL}"
threads = 2
max_batch = 8
kv_tokens = 8192

[models.{MODEL}]
routes = [{{ engine = "local" }}]
"""
TENANTS = """
[auth]
tenant_from = ["header"]
[tenants.acme]
[tenants.other]
"""
LONG = {"max_tokens": 400, "ignore_eos": True}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "millstream.toml"
    file.write_text(BASE + TENANTS)
    return file


@pytest.fixture
def server(file: Path, tmp_path: Path) -> Iterator[Server]:
    port = free_port()
    with serving(millstream_command(port, file), port=port, folder=tmp_path) as server:
        yield server


def post(server: Server, tenant: str, **fields: object) -> httpx.Response:
    body = chat(**{"stream": False, "max_tokens": 2, **fields})
    headers = {"x-tenant-id": tenant}
    return httpx.post(f"{server.url}{CHAT}", json=body, headers=headers, timeout=60)


def shown(server: Server) -> dict[str, Any]:
    content: dict[str, Any] = server.get("/admin/config").json()
    return content


def change(server: Server, file: Path, text: str) -> None:
    """Write the file, and wait for the one worker to go by it."""
    revision = shown(server)["revision"]
    put(file, text)
    until(lambda: shown(server)["revision"] > revision)


def put(file: Path, text: str) -> None:
    """Write it at once: half a file is another one."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def test_a_stream_keeps_what_it_was_admitted_with_and_new_ones_do_not(
    server: Server, file: Path
) -> None:
    with Connection(server.port) as running:
        fields = {**LONG, "stream_options": {"resumable": True}}
        running.post(CHAT, chat(**fields), "X-Tenant-Id: acme")
        running.read_until(b"data: ")
        stream = running.header("x-stream-id")
        hasty = "timeouts = { total_seconds = 0.2 }\nmax_tokens = 300\n"
        change(server, file, f"{BASE}{hasty}{TENANTS.replace('[tenants.acme]', '')}")
        refused = post(server, "acme")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "unknown_tenant")
        # Nor may it read what it has left behind.
        left = httpx.get(
            f"{server.url}/v1/streams/{stream}", headers={"x-tenant-id": "acme"}, timeout=120
        )
        assert (left.status_code, left.json()["error"]["code"]) == (403, "unknown_tenant")
        assert post(server, "other", **LONG).status_code == 504
        assert not running.complete
        running.read_all()
    assert running.complete
    assert running.body.endswith(b"data: [DONE]\n\n")
    assert b'"finish_reason":"length"' in running.body
    assert running.body.count(b'"content":') > 300


def test_limits_that_are_raised_and_lowered_count_what_is_in_use(
    server: Server, file: Path
) -> None:
    def limited(concurrency: int) -> str:
        return f"{BASE}{TENANTS}[tenants.acme.limits]\nconcurrency = {concurrency}\n".replace(
            "[tenants.acme]\n", ""
        )

    change(server, file, limited(1))
    with Connection(server.port) as first, Connection(server.port) as second:
        first.post(CHAT, chat(**{**LONG, "max_tokens": 1500}), "X-Tenant-Id: acme")
        first.read_until(b"data: ")
        assert post(server, "acme").status_code == 429
        assert post(server, "other").status_code == 200
        change(server, file, limited(2))
        second.post(CHAT, chat(**{**LONG, "max_tokens": 1500}), "X-Tenant-Id: acme")
        second.read_until(b"data: ")
        assert post(server, "acme").status_code == 429
        change(server, file, limited(1))
        assert post(server, "acme").status_code == 429
        # Neither of those that run was touched.
        for one in (first, second):
            one.body = b""
            one.read_until(b"data: ")
    until(lambda: server.metric("millstream_active_streams") == 0)
    assert post(server, "acme").status_code == 200


def test_a_broken_file_is_named_and_changes_nothing(server: Server, file: Path) -> None:
    put(file, f"{BASE}{TENANTS}prioritty = 1\n")
    until(lambda: shown(server)["last_error"])
    state = shown(server)
    assert "did you mean `priority`?" in state["last_error"]
    assert state["revision"] == 1
    assert post(server, "acme").status_code == 200
    assert "config_refused" in server.log.read_text()
    change(server, file, f"{BASE}{TENANTS}[tenants.third]\n[server]\ndrain_seconds = 7\n")
    state = shown(server)
    assert (state["last_error"], state["restart_needed"]) == (None, ["server.drain_seconds"])
    assert post(server, "third").status_code == 200


def test_two_instances_of_two_workers_each_take_over_what_is_pushed(
    file: Path, tmp_path: Path
) -> None:
    valkey = ValkeyServer()
    environment = {"MILLSTREAM__RELOAD__URL": valkey.url}
    other = tmp_path / "other.toml"
    other.write_text(BASE + TENANTS)
    ports = free_port(), free_port()
    try:
        with (
            serving(
                millstream_command(ports[0], file, "--workers", "2"),
                port=ports[0], folder=tmp_path, environment=environment,
            ) as one,
            serving(
                millstream_command(ports[1], other, "--workers", "2"),
                port=ports[1], folder=tmp_path, environment=environment,
            ) as two,
        ):  # fmt: skip
            until(lambda: valkey.client.pubsub_numsub("millstream:config")[0][1] == 4)
            put(file, f"{BASE}{TENANTS}[tenants.third]\n")
            for server in (one, two):
                until(partial(everywhere, server, "third"))
            pushed = tmp_path / "pushed.toml"
            pushed.write_text(f"{BASE}{TENANTS}[tenants.fourth]\n")
            command = [sys.executable, "-m", "millstream.cli", "config", "push", "--config"]
            done = subprocess.run(
                [*command, str(pushed)],
                env={**os.environ, **environment},
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            assert done.stdout == f"{pushed}: handed to 4 workers\n"
            for server in (one, two):
                until(partial(everywhere, server, "fourth"))
                assert post(server, "third").status_code == 403
    finally:
        valkey.close()


def everywhere(server: Server, tenant: str) -> bool:
    """Whether a row of connections, which the workers share, all find this tenant."""
    headers = {"x-tenant-id": tenant}
    return all(
        httpx.get(f"{server.url}/v1/models", headers=headers, timeout=120).status_code == 200
        for _ in range(20)
    )
