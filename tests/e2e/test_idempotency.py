"""Requests that are sent again, over real sockets from the real model."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.e2e.frames import frames, native_text
from tests.e2e.http1 import Connection
from tests.e2e.servers import (
    MODEL,
    Server,
    granian_command,
    millstream_command,
    serving,
)
from tests.integration.valkey_server import ValkeyServer
from tests.ports import free_port
from tests.waiting import until

STREAMS = "/v1/streams"
COMPLETIONS = "/v1/completions"
ASKED: dict[str, object] = {
    "model": MODEL,
    "prompt": "The capital of France is",
    "max_tokens": 12,
    "ignore_eos": True,
}


def generated(server: Server) -> float:
    """Completion tokens of all streams so far."""
    return server.metric("millstream_tokens_total", type="completion")


@pytest.mark.parametrize("path", [STREAMS, COMPLETIONS])
def test_requests_at_the_same_instant_make_one_generation(idle: Server, path: str) -> None:
    # mastodon#37879, grape-idempotency#10
    before, streams = generated(idle), idle.metric("millstream_requests_total")
    headers = {"Idempotency-Key": f"instant{path}"}
    with ThreadPoolExecutor(6) as pool:
        answers = list(
            pool.map(
                lambda _: httpx.post(f"{idle.url}{path}", json=ASKED, headers=headers, timeout=60),
                range(6),
            )
        )
    assert [answer.status_code for answer in answers] == [200] * 6
    replayed = [answer.headers.get("idempotent-replayed") for answer in answers]
    assert sorted(map(str, replayed)) == ["None", *["true"] * 5]
    # Sampled at temperature 1: the same text is the same generation.
    bodies = {
        native_text(frames(answer.content)) if path == STREAMS else answer.text
        for answer in answers
    }
    assert len(bodies) == 1
    until(lambda: idle.metric("millstream_active_streams") == 0)
    assert generated(idle) - before == 12
    assert idle.metric("millstream_requests_total") - streams == 1


def test_a_client_that_was_cut_off_sends_again_and_gets_the_whole(idle: Server) -> None:
    before = generated(idle)
    body = {**ASKED, "max_tokens": 30}
    with Connection(idle.port) as client:
        client.post(STREAMS, body, "Idempotency-Key: cut-off")
        client.read_until(b"id: 1-3\n")
    again = httpx.post(
        f"{idle.url}{STREAMS}", json=body, headers={"Idempotency-Key": "cut-off"}, timeout=60
    )
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["x-stream-id"] == client.header("x-stream-id")
    events = frames(again.content)
    assert [frame.seq for frame in events] == list(range(1, len(events) + 1))
    assert events[0].fields["data"] == frames(client.body)[0].fields["data"]
    until(lambda: idle.metric("millstream_active_streams") == 0)
    assert generated(idle) - before == 30


def test_a_client_that_sends_again_with_its_cursor_goes_on_after_it(idle: Server) -> None:
    # A client whose library repeats the request by itself, as fetch-event-source does.
    before, body = generated(idle), {**ASKED, "max_tokens": 30}
    key = "Idempotency-Key: with-cursor"
    with Connection(idle.port) as client:
        client.post(STREAMS, body, key)
        client.read_until(b"id: 1-3\n")
    read = frames(client.body)
    with Connection(idle.port) as again:
        again.post(STREAMS, body, key, f"Last-Event-ID: {read[-1].id}")
        again.read_all()
    assert again.complete
    assert again.header("idempotent-replayed") == "true"
    rest = frames(again.body)
    assert [frame.seq for frame in read + rest] == list(range(1, rest[-1].seq + 1))
    assert rest[-1].event == "done"
    with Connection(idle.port) as last:
        last.post(STREAMS, body, key, f"Last-Event-ID: {rest[-1].id}")
        assert last.read_head() == 204
    until(lambda: idle.metric("millstream_active_streams") == 0)
    assert generated(idle) - before == 30


def test_a_key_expires_with_its_stream(idle: Server) -> None:
    body, headers = {**ASKED, "model": "short-retention"}, {"Idempotency-Key": "short"}
    first = httpx.post(f"{idle.url}{COMPLETIONS}", json=body, headers=headers, timeout=60)

    def forgotten() -> bool:
        answer = httpx.post(f"{idle.url}{COMPLETIONS}", json=body, headers=headers, timeout=60)
        assert answer.status_code == 200
        return "idempotent-replayed" not in answer.headers

    assert "idempotent-replayed" not in first.headers
    until(forgotten, what="the key is free again")


def test_a_refused_request_leaves_its_key_free(idle: Server) -> None:
    body = {**ASKED, "model": "one-at-a-time"}
    headers = {"Idempotency-Key": "refused"}
    with Connection(idle.port) as holder:
        holder.post(COMPLETIONS, {**body, "max_tokens": 1500, "stream": True})
        holder.read_until(b"data: ")
        refused = httpx.post(f"{idle.url}{COMPLETIONS}", json=body, headers=headers, timeout=120)
        assert refused.status_code == 429
    until(lambda: idle.metric("millstream_active_streams") == 0)
    answer = httpx.post(f"{idle.url}{COMPLETIONS}", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200
    assert "idempotent-replayed" not in answer.headers


def test_two_workers_with_a_memory_each_refuse_what_the_other_could_not_find(
    tmp_path: Path,
) -> None:
    # Nothing tells an app under the user's own Granian how many workers there are.
    port = free_port()
    with serving(granian_command(port, "--workers", "2"), port=port, folder=tmp_path) as server:
        until(lambda: len(server.workers()) == 2)

        def refused() -> bool:
            answer = httpx.post(f"{server.url}{STREAMS}", json=ASKED, timeout=60)
            return answer.status_code == 400 and "store.kind" in answer.text

        # Some of so many connections go to either.
        until(lambda: all(refused() for _ in range(8)), what="both workers know of each other")
        keyed = httpx.post(
            f"{server.url}{COMPLETIONS}", json=ASKED, headers={"Idempotency-Key": "a"}, timeout=60
        )
        assert keyed.status_code == 400
        plain = httpx.post(f"{server.url}{COMPLETIONS}", json=ASKED, timeout=60)
        assert plain.status_code == 200


@pytest.fixture
def shared(config: Path, tmp_path: Path) -> Iterator[Server]:
    """Two workers that share a real Valkey."""
    valkey = ValkeyServer()
    path = tmp_path / "millstream.toml"
    # What one worker counts is not what this is about.
    lines = [line for line in config.read_text().splitlines() if not line.startswith("limits")]
    store = f'[store]\nkind = "valkey"\nurl = "{valkey.url}"\n'
    path.write_text("\n".join([*lines, store]))
    port = free_port()
    command = millstream_command(port, path, "--workers", "2")
    try:
        with serving(command, port=port, folder=tmp_path) as server:
            until(lambda: len(server.workers()) == 2)
            yield server
    finally:
        valkey.close()


def test_workers_that_share_a_store_make_one_generation_between_them(shared: Server) -> None:
    headers = {"Idempotency-Key": "between-workers"}
    # Each of many connections goes to whichever worker takes it.
    with ThreadPoolExecutor(12) as pool:
        answers = list(
            pool.map(
                lambda _: httpx.post(
                    f"{shared.url}{STREAMS}", json=ASKED, headers=headers, timeout=60
                ),
                range(12),
            )
        )
    assert [answer.status_code for answer in answers] == [200] * 12
    assert len({answer.headers["x-stream-id"] for answer in answers}) == 1
    assert len({native_text(frames(answer.content)) for answer in answers}) == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1
    until(lambda: shared.metric("millstream_active_streams") == 0)
    assert generated(shared) == 12
    other = httpx.post(
        f"{shared.url}{STREAMS}", json={**ASKED, "seed": 1}, headers=headers, timeout=120
    )
    assert other.status_code == 422
    url = f"{shared.url}{STREAMS}/{answers[0].headers['x-stream-id']}"
    for _ in range(8):
        cursor = {"Last-Event-ID": "1-4"}
        rest = httpx.get(url, headers=cursor, timeout=60)
        again = httpx.post(
            f"{shared.url}{STREAMS}", json=ASKED, headers=headers | cursor, timeout=120
        )
        for answer in (rest, again):
            assert [frame.seq for frame in frames(answer.content)][:1] == [5]
