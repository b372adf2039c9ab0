"""``/v1/streams``: several models on one connection, and streams without one."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.e2e.frames import frames, native_text
from tests.e2e.http1 import Connection
from tests.e2e.servers import MODEL, Server
from tests.waiting import until

STREAMS = "/v1/streams"
COMMON: dict[str, object] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Count from one to five hundred in words."}],
    "temperature": 0,
    "max_tokens": 12,
    "ignore_eos": True,
}


def alone(server: Server, **fields: object) -> str:
    """The text of one model by itself."""
    answer = httpx.post(f"{server.url}{STREAMS}", json={**COMMON, **fields}, timeout=60)
    assert answer.status_code == 200
    return native_text(frames(answer.content))


def test_branches_are_told_apart_and_each_has_its_outcome_and_usage(idle: Server) -> None:
    branches: list[dict[str, object]] = [
        {},
        {"max_tokens": 5},
        {"messages": None, "prompt": "The capital of France is"},
    ]
    common = {**COMMON, "max_tokens": 40}
    body = {**common, "branches": branches}
    answer = httpx.post(f"{idle.url}{STREAMS}", json=body, timeout=60)
    events = frames(answer.content)
    assert [frame.seq for frame in events] == list(range(1, len(events) + 1))
    for index, fields in enumerate(branches):
        assert native_text(events, branch=index) == alone(idle, **{**common, **fields})
    tokens = [frame.data["branch"] for frame in events if frame.event == "token"]
    assert tokens != sorted(tokens), "the branches came one after the other"
    ended = {
        frame.data["branch"]: frame.data["outcome"]
        for frame in events
        if frame.event == "branch_done"
    }
    assert ended == {0: "length", 1: "length", 2: "length"}
    usage = {
        frame.data["branch"]: frame.data["usage"]["completion_tokens"]
        for frame in events
        if frame.event == "usage"
    }
    assert usage == {0: 40, 1: 5, 2: 40}
    assert events[-1].event == "done"
    assert {frame.data["model"] for frame in events if frame.event == "token"} == {MODEL}


def test_one_branch_is_cancelled_and_the_others_end_by_themselves(idle: Server) -> None:
    branches: list[dict[str, object]] = [{}, {"max_tokens": 1500}]
    with Connection(idle.port) as client:
        client.post(STREAMS, {**COMMON, "max_tokens": 40, "branches": branches})
        assert client.read_head() == 200
        stream_id = client.header("x-stream-id")
        client.read_until(b'"branch":1')
        cancelled = httpx.post(
            f"{idle.url}{STREAMS}/{stream_id}/cancel", json={"branch": 1}, timeout=120
        )
        assert cancelled.json() == {"id": stream_id, "outcome": "cancelled"}
        client.read_all()
    events = frames(client.body)
    ended = {
        frame.data["branch"]: frame.data["outcome"]
        for frame in events
        if frame.event == "branch_done"
    }
    assert ended == {0: "length", 1: "cancelled"}
    assert native_text(events, branch=0) == alone(idle, max_tokens=40)
    last_of_the_cancelled = max(
        index for index, frame in enumerate(events) if frame.data.get("branch") == 1
    )
    assert events[last_of_the_cancelled].event in ("branch_done", "usage")
    assert events[-1].data["outcome"] == "cancelled"


def test_a_stream_without_a_connection_runs_on_and_is_read_later(idle: Server) -> None:
    begun = httpx.post(f"{idle.url}{STREAMS}", json={**COMMON, "stream": False}, timeout=120)
    assert begun.status_code == 202
    until(lambda: idle.metric("millstream_active_streams") == 0, what="it has ended by itself")
    read = idle.get(begun.json()["url"])
    assert native_text(frames(read.content)) == alone(idle)


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "application/jsonl"])
def test_lines_of_json_carry_the_ids_and_resume(idle: Server, media_type: str) -> None:
    accept = {"Accept": f"{media_type}, text/event-stream;q=0.5"}
    answer = httpx.post(f"{idle.url}{STREAMS}", json=COMMON, headers=accept, timeout=60)
    assert answer.headers["content-type"] == media_type
    lines = answer.text.splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    assert ids == [f"1-{seq}" for seq in range(1, len(lines) + 1)]
    url = f"{idle.url}{STREAMS}/{answer.headers['x-stream-id']}"
    rest = httpx.get(url, headers={**accept, "Last-Event-ID": ids[4]}, timeout=120)
    assert rest.text.splitlines() == lines[5:]


def test_the_extra_lines_and_the_metadata_say_whose_token_it_is(idle: Server) -> None:
    body = {**COMMON, "fields": True, "metadata": True, "max_tokens": 3}
    events = frames(httpx.post(f"{idle.url}{STREAMS}", json=body, timeout=60).content)
    token = events[0]
    assert token.fields["model-id"] == MODEL
    assert token.fields["chunk-id"] == token.data["stream"]["chunk_id"]
    assert token.fields["token-count"] == "1"
    assert token.data["stream"]["seq"] == 1


def test_the_checks_travel_in_the_ids_and_close_the_stream(idle: Server) -> None:
    body = {**COMMON, "integrity": True, "max_tokens": 10}
    events = frames(httpx.post(f"{idle.url}{STREAMS}", json=body, timeout=60).content)
    with_ids = [frame for frame in events if frame.id]
    assert all(len(frame.id.split("-")) == 3 for frame in with_ids)
    assert [frame.event for frame in events if not frame.id] == ["leaf"]
    checks = events[-1].data["checks"]
    assert (checks["records"], checks["crc"]) == (10, events[-1].id.split("-")[2])


def test_a_wrong_check_sends_the_reader_back_to_the_last_good_leaf(idle: Server) -> None:
    body = {**COMMON, "integrity": True}
    answer = httpx.post(f"{idle.url}{STREAMS}", json=body, timeout=60)
    url = f"{idle.url}{STREAMS}/{answer.headers['x-stream-id']}"
    right = next(frame.id for frame in frames(answer.content) if frame.id.startswith("1-11-"))
    assert frames(httpx.get(f"{url}?after={right}", timeout=120).content)[0].id.startswith("1-12-")
    again = frames(httpx.get(f"{url}?after=1-11-00000000", timeout=120).content)
    assert again[0].id.startswith("1-9-")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", STREAMS, 405),
        ("PUT", f"{STREAMS}/x", 405),
        ("GET", f"{STREAMS}/x/cancel", 405),
        ("HEAD", f"{STREAMS}/x", 404),
        ("GET", f"{STREAMS}/{'x' * 1000}", 404),
        ("GET", f"{STREAMS}/%00", 404),
        ("POST", f"{STREAMS}/x/cancel", 404),
    ],
)
def test_what_is_not_there_is_said_so(idle: Server, method: str, path: str, status: int) -> None:
    assert httpx.request(method, f"{idle.url}{path}").status_code == status


def test_head_says_what_a_get_would_without_holding_the_stream(idle: Server) -> None:
    with Connection(idle.port) as client:
        client.post(STREAMS, {**COMMON, "max_tokens": 40})
        assert client.read_head() == 200
        url = f"{idle.url}{STREAMS}/{client.header('x-stream-id')}"
        head = httpx.head(url)
        assert head.status_code == 200
        assert head.headers["content-type"].startswith("text/event-stream")
        assert httpx.head(f"{url}?after=9999").status_code == 400
        client.read_all()
