"""The wire as an HTTP/1.1 client sees it, and clients that leave or do not read."""

from __future__ import annotations

import json
from http.client import HTTPConnection

import httpx
import pytest

from tests.e2e.http1 import Connection, events, request_bytes
from tests.e2e.servers import MODEL, Server
from tests.waiting import until

CHAT = "/v1/chat/completions"


def chat(**fields: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "Count from one to five hundred in words."}]
    return {"model": MODEL, "messages": messages, "stream": True, "temperature": 0, **fields}


def running(server: Server) -> float:
    return server.metric("millstream_engine_batch_size")


def test_the_stream_has_the_headers_and_ends_with_done_in_its_last_chunk(idle: Server) -> None:
    with Connection(idle.port) as client:
        client.post(CHAT, chat(max_tokens=4))
        assert client.read_head() == 200
        head = client.head.lower()
        assert b"content-type: text/event-stream" in head
        assert b"cache-control: no-cache" in head
        assert b"x-accel-buffering: no" in head
        client.read_all()
        assert client.complete
        assert client.body.endswith(b"data: [DONE]\n\n")
        assert all(
            line == b"" or line == b":" or line.startswith(b"data: ")
            for line in client.body.split(b"\n")
        )


def test_ndjson_is_the_same_objects_a_line_each(idle: Server) -> None:
    answer = httpx.post(
        f"{idle.url}{CHAT}",
        json=chat(max_tokens=4),
        headers={"Accept": "application/x-ndjson"},
        timeout=120,
    )
    assert answer.headers["content-type"] == "application/x-ndjson"
    chunks = [json.loads(line) for line in answer.text.splitlines()]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("phase", ["queue", "prefill", "decode"])
def test_a_client_that_leaves_stops_the_engine(idle: Server, phase: str, stream: bool) -> None:
    # litellm#36123, bifrost#7106, production-stack#634: unseen before the first token, or
    # without streaming.
    others = [Connection(idle.port) for _ in range(8 if phase == "queue" else 0)]
    for other in others:
        other.post(CHAT, chat(max_tokens=1500, ignore_eos=True))
    until(lambda: running(idle) == len(others))
    client = Connection(idle.port)
    words = "word " * (6000 if phase == "prefill" else 5)
    asked = [{"role": "user", "content": words}]
    client.post(CHAT, chat(max_tokens=1500, stream=stream, messages=asked, ignore_eos=True))
    until(lambda: idle.metric("millstream_active_streams") == len(others) + 1)
    if phase == "queue":
        until(lambda: idle.metric("millstream_queue_depth") == 1)
    if phase == "decode":
        until(lambda: running(idle) == 1)
    client.close()
    until(lambda: idle.metric("millstream_active_streams") == len(others), what="stream ended")
    until(lambda: idle.metric("millstream_queue_depth") == 0, what="nothing waits")
    for other in others:
        other.close()
    until(lambda: idle.metric("millstream_kv_blocks_used") == 0, what="pages are free")


def test_a_client_that_does_not_read_is_given_up_and_others_go_on(idle: Server) -> None:
    slow = Connection(idle.port, receive_buffer=2048)
    slow.post(CHAT, chat(max_tokens=1500, n=4, ignore_eos=True))
    answer = httpx.post(f"{idle.url}{CHAT}", json=chat(max_tokens=8, stream=False), timeout=60)
    assert answer.json()["usage"]["completion_tokens"] == 8
    slow.close()


def test_silence_is_filled_with_comments_that_no_client_sees(idle: Server) -> None:
    with Connection(idle.port) as client:
        words = "word " * 2000
        client.post(CHAT, chat(max_tokens=1, messages=[{"role": "user", "content": words}]))
        client.read_all()
        assert client.complete
        assert client.body.startswith(b":\n")
        assert events(client.body)[-1] == "[DONE]"


def test_a_stream_that_takes_too_long_ends_with_an_error_and_a_cut(idle: Server) -> None:
    with Connection(idle.port) as client:
        client.post(CHAT, chat(model="hasty", max_tokens=1500, ignore_eos=True))
        client.read_all()
        assert not client.complete
        last = events(client.body)[-1]
        assert isinstance(last, dict)
        assert last["error"]["code"] == "timeout_total"
    whole = chat(model="hasty", max_tokens=1500, ignore_eos=True, stream=False)
    answer = httpx.post(f"{idle.url}{CHAT}", json=whole, timeout=60)
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "timeout_total"


@pytest.mark.parametrize(
    ("status", "code", "content", "headers"),
    [
        (400, "invalid_json", b"{", {}),
        (400, "invalid_json", b"", {}),
        (400, "invalid_json", b'{"model": "\xff"}', {}),
        (415, "unsupported_media_type", b"{}", {"content-type": "text/plain"}),
        (415, "unsupported_media_type", b"{}", {"content-encoding": "gzip"}),
        (422, "invalid_value", b"{}", {}),
        (422, "invalid_value", b"[]", {}),
        (413, "request_too_large", b" " * (4 << 20) + b"{}", {}),
        (406, "not_acceptable", json.dumps(chat()).encode(), {"accept": "image/png"}),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_a_bad_body_is_refused_as_openai_does(
    idle: Server, path: str, status: int, code: str, content: bytes, headers: dict[str, str]
) -> None:
    if status == 406 and path != CHAT:
        content = json.dumps({"model": MODEL, "prompt": "a", "stream": True}).encode()
    sent = {"content-type": "application/json", **headers}
    answer = httpx.post(f"{idle.url}{path}", content=content, headers=sent, timeout=120)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["type"] == "invalid_request_error"
    assert error["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 5.5}, "max_tokens"),
        ({"stop": [""]}, "stop[0]"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"seed": 2**70}, "seed"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": "hello"}, "messages"),
        ({"model": ""}, "model"),
        ({"stream": "yes"}, "stream"),
    ],
)
def test_a_wrong_field_is_named(idle: Server, fields: dict[str, object], param: str) -> None:
    answer = httpx.post(f"{idle.url}{CHAT}", json={**chat(), **fields}, timeout=120)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["param"] == param


def test_an_unknown_member_of_a_content_part_is_named(idle: Server) -> None:
    part = {"type": "text", "text": "x", "colour": "red"}
    answer = httpx.post(
        f"{idle.url}{CHAT}", json=chat(messages=[{"role": "user", "content": [part]}]), timeout=120
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages[0].content[0].colour"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/completions", {"prompt": "1" * 4_000_000}),
        (CHAT, {"messages": [{"role": "user", "content": "1" * 4_000_000}]}),
    ],
)
def test_megabytes_that_cannot_fit_are_refused_without_a_count(
    idle: Server, path: str, fields: dict[str, object]
) -> None:
    # They were tokenised first: the loop stood still for 31 s, and 700 MB stayed in use.
    answer = httpx.post(f"{idle.url}{path}", json={"model": MODEL, **fields}, timeout=120)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["param"] in fields
    assert " characters; this model takes at most " in error["message"]


def test_ids_that_do_not_fit_are_counted_as_tokens(idle: Server) -> None:
    body = {"model": MODEL, "prompt": [1] * 800_000}
    answer = httpx.post(f"{idle.url}/v1/completions", json=body, timeout=120)
    assert answer.status_code == 400
    assert "The prompt has 800000 tokens" in answer.json()["error"]["message"]


def test_a_body_that_does_not_come_is_given_up(idle: Server) -> None:
    with Connection(idle.port) as client:
        content = request_bytes(CHAT, chat())
        client.socket.sendall(content[:-10])
        assert client.read_head() == 408
        assert b"request_timeout" in client.rest()


def test_a_client_that_sends_too_much_gets_its_answer_and_keeps_its_connection(
    idle: Server,
) -> None:
    # Refused while it sent, its connection was reset and the 413 lost with it.
    connection = HTTPConnection("127.0.0.1", idle.port, timeout=120)
    for status, content in [(413, b" " * (5 << 20)), (400, b"{")]:
        connection.request("POST", CHAT, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_other_methods_are_not_allowed(idle: Server, method: str) -> None:
    answer = httpx.request(method, f"{idle.url}{CHAT}")
    assert answer.status_code == 405
    assert answer.json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/models", "/v1/nothing"])
def test_a_head_is_the_head_of_a_get_and_no_more(idle: Server, path: str) -> None:
    connection = HTTPConnection("127.0.0.1", idle.port, timeout=120)
    statuses = []
    for method in ("HEAD", "GET", "HEAD", "GET"):
        connection.request(method, path)
        answer = connection.getresponse()
        assert bool(answer.read()) is (method == "GET")
        statuses.append(answer.status)
    assert len(set(statuses)) == 1
    connection.close()


def test_an_unknown_path_is_an_openai_error(idle: Server) -> None:
    answer = idle.get("/v1/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


def test_a_request_id_that_could_break_a_log_line_is_replaced(idle: Server) -> None:
    answer = httpx.get(f"{idle.url}/healthz", headers={"X-Request-Id": "a b\tc"}, timeout=120)
    assert answer.headers["x-request-id"] not in ("", "a b\tc")
