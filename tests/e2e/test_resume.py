"""Streams that are cut off and come back, over real sockets from the real model."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from tests.e2e.frames import Frame, frames, native_text, openai_text
from tests.e2e.http1 import Connection
from tests.e2e.servers import MODEL, Server
from tests.e2e.test_faults import engine_pids
from tests.waiting import until

CHAT = "/v1/chat/completions"
STREAMS = "/v1/streams"
MESSAGES = [{"role": "user", "content": "Count from one to five hundred in words."}]
TOKENS = 24


def asked(**fields: object) -> dict[str, object]:
    return {
        "model": MODEL,
        "messages": MESSAGES,
        "temperature": 0,
        "max_tokens": TOKENS,
        "ignore_eos": True,
        **fields,
    }


def resumable(**fields: object) -> dict[str, object]:
    return asked(stream=True, stream_options={"resumable": True}, **fields)


def begin(client: Connection, body: dict[str, object], path: str = STREAMS) -> str:
    """Post; the path of the stream that came of it."""
    client.post(path, body)
    assert client.read_head() == 200
    return f"{STREAMS}/{client.header('x-stream-id')}"


def read_from(port: int, path: str, cursor: str = "") -> list[Frame]:
    """Everything from this cursor to the end."""
    with Connection(port) as client:
        client.get(path, *([f"Last-Event-ID: {cursor}"] if cursor else []))
        assert client.read_head() == 200
        client.read_all()
        return frames(client.body)


@pytest.fixture(scope="module")
def truth(server: Server) -> str:
    """What the model says if nobody cuts it off."""
    answer = httpx.post(f"{server.url}{CHAT}", json=asked(), timeout=60).json()
    return str(answer["choices"][0]["message"]["content"])


WIRES: list[tuple[str, Callable[..., dict[str, object]], Callable[[list[Frame]], str]]] = [
    (STREAMS, asked, native_text),
    (CHAT, resumable, openai_text),
]


@pytest.mark.parametrize(("path", "body", "text"), WIRES, ids=["native", "openai"])
@pytest.mark.parametrize("cuts", [[1], [5, 6], [1, 2, 3, 10, 15]])
def test_a_reader_that_is_cut_off_again_and_again_misses_and_doubles_nothing(
    idle: Server,
    truth: str,
    path: str,
    body: Callable[..., dict[str, object]],
    text: Callable[[list[Frame]], str],
    cuts: list[int],
) -> None:
    seen: list[Frame] = []
    with Connection(idle.port) as client:
        url = begin(client, body(), path)
        client.read_until(f"id: 1-{cuts[0]}\n".encode())
        seen += frames(client.body)
    for cut in cuts[1:]:
        if seen and seen[-1].seq >= cut:
            continue
        with Connection(idle.port) as client:
            client.get(url, *([f"Last-Event-ID: {seen[-1].id}"] if seen else []))
            client.read_until(f"id: 1-{cut}\n".encode())
            seen += frames(client.body)
    seen += read_from(idle.port, url, seen[-1].id if seen else "")
    whole = read_from(idle.port, url)
    assert [(frame.id, frame.fields["data"]) for frame in seen] == [
        (frame.id, frame.fields["data"]) for frame in whole
    ]
    assert text(seen) == truth


def test_many_readers_of_one_stream_each_at_its_own_place(idle: Server, truth: str) -> None:
    with Connection(idle.port) as producer:
        url = begin(producer, asked())
        producer.read_until(b"id: 1-6\n")
        cursors = ["", *(f"1-{seq}" for seq in range(1, 6))] * 3
        with ThreadPoolExecutor(len(cursors)) as pool:
            read = list(pool.map(lambda cursor: read_from(idle.port, url, cursor), cursors))
        producer.read_all()
    whole = frames(producer.body)
    assert native_text(whole) == truth
    for cursor, events in zip(cursors, read, strict=True):
        start = int(cursor.split("-")[1]) if cursor else 0
        assert [frame.fields["id"] for frame in events] == [f.id for f in whole[start:]]
        assert native_text(events) == native_text(whole[start:])


def test_every_connection_is_told_when_to_come_back_once_and_with_data(idle: Server) -> None:
    times = set()
    with Connection(idle.port) as client:
        url = begin(client, asked(max_tokens=3))
        client.read_all()
    for events in [frames(client.body), *(read_from(idle.port, url) for _ in range(4))]:
        assert ["retry" in frame.fields for frame in events] == [True] + [False] * (len(events) - 1)
        assert list(events[0].fields) == ["id", "retry", "event", "data"]
        times.add(int(events[0].fields["retry"]))
    assert all(2500 <= milliseconds <= 4500 for milliseconds in times)
    assert len(times) > 1


def test_who_has_read_to_the_end_is_told_to_stop_and_others_still_read(idle: Server) -> None:
    # resumable-stream#44, cloudflare/agents#1607
    with Connection(idle.port) as client:
        url = begin(client, asked(max_tokens=3))
        client.read_all()
    last = frames(client.body)[-1].id
    answer = httpx.get(f"{idle.url}{url}", headers={"Last-Event-ID": last}, timeout=120)
    assert (answer.status_code, answer.content) == (204, b"")
    assert native_text(read_from(idle.port, url)) == native_text(frames(client.body))


def test_a_client_without_headers_comes_back_by_its_url(idle: Server) -> None:
    # turnstone#552
    with Connection(idle.port) as client:
        url = begin(client, asked(max_tokens=6))
        client.read_until(b"id: 1-3\n")
    events = read_from(idle.port, f"{url}?after=1-3")
    assert [frame.seq for frame in events] == list(range(4, events[-1].seq + 1))


def test_what_is_no_longer_kept_is_a_410_or_a_gap_with_the_text(idle: Server) -> None:
    with Connection(idle.port) as client:
        url = begin(client, asked(model="short-memory", max_tokens=120))
        client.read_all()
    whole = frames(client.body)
    gone = httpx.get(f"{idle.url}{url}?after=1-2", timeout=120)
    assert gone.status_code == 410
    oldest, latest = gone.json()["oldest"], gone.json()["latest"]
    assert gone.json()["error"]["code"] == "stream_trimmed"
    assert latest == whole[-1].seq
    assert latest - oldest == 63
    kept = read_from(idle.port, f"{url}?after={oldest - 1}")
    assert [frame.seq for frame in kept] == list(range(oldest, latest + 1))
    bridged = read_from(idle.port, f"{url}?after=1-2&on_gap=snapshot")
    assert bridged[0].event == "gap"
    assert bridged[0].id == ""
    assert bridged[0].data["missing"] == {"first": 3, "last": oldest - 1}
    (text,) = bridged[0].data["text"]
    assert text["omitted_bytes"] == 0
    assert text["text"] == native_text(whole)
    assert [frame.event for frame in bridged[1:]] == ["finish", "usage", "done"]


def test_a_gap_in_a_stream_that_runs_goes_on_without_doubling(idle: Server) -> None:
    with Connection(idle.port) as client:
        url = begin(client, asked(model="short-memory", max_tokens=240))
        client.read_until(b"id: 1-80\n")
        with Connection(idle.port) as late:
            late.get(f"{url}?on_gap=snapshot")
            late.read_all()
        client.read_all()
    gap, *rest = frames(late.body)
    assert gap.event == "gap"
    (so_far,) = gap.data["text"]
    assert so_far["text"] + native_text(rest) == native_text(frames(client.body))
    assert rest[0].seq == gap.data["latest"] + 1


# --- presence ---------------------------------------------------------------------------------


def test_who_comes_back_within_the_grace_finds_the_stream_running(idle: Server, truth: str) -> None:
    with Connection(idle.port) as client:
        url = begin(client, asked(max_tokens=300))
        client.read_until(b"id: 1-2\n")
    until(lambda: idle.metric("millstream_detached_streams") == 1, what="nobody reads")
    events = read_from(idle.port, url)
    assert native_text(events).startswith(truth)
    assert [frame.seq for frame in events] == list(range(1, events[-1].seq + 1))
    assert events[-1].data == {"outcome": "length"}


def test_a_stream_to_which_nobody_comes_back_ends_as_client_gone(idle: Server) -> None:
    with Connection(idle.port) as client:
        url = begin(client, asked(model="short-grace", max_tokens=1500))
        client.read_until(b"id: 1-2\n")
    until(lambda: idle.metric("millstream_active_streams") == 0, what="the grace has passed")
    events = read_from(idle.port, url)
    assert events[-1].data == {"outcome": "client_gone"}
    assert events[-1].seq < 1500


def test_a_reader_who_stays_keeps_the_stream_of_one_who_left(idle: Server) -> None:
    with Connection(idle.port) as first:
        url = begin(first, asked(model="short-grace", max_tokens=80))
        first.read_until(b"id: 1-2\n")
        with Connection(idle.port) as second:
            second.get(url)
            second.read_until(b"id: 1-2\n")
            first.close()
            second.read_all()
    assert frames(second.body)[-1].data == {"outcome": "length"}


def test_an_ended_stream_is_forgotten_when_its_time_has_passed(idle: Server) -> None:
    with Connection(idle.port) as client:
        url = begin(client, asked(model="short-retention", max_tokens=2))
        client.read_all()
    assert frames(client.body)[-1].data == {"outcome": "length"}
    until(lambda: idle.get(url).status_code == 404, what="forgotten")


# --- cancel -----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["queue", "prefill", "decode"])
def test_a_stream_is_cancelled_from_another_connection(idle: Server, phase: str) -> None:
    # vercel/ai#6502, #18458: stop() did not stop a resumed stream.
    others = [Connection(idle.port) for _ in range(8 if phase == "queue" else 0)]
    for other in others:
        other.post(CHAT, asked(max_tokens=1500, stream=True))
    until(lambda: idle.metric("millstream_engine_batch_size") == len(others))
    words = "word " * (6000 if phase == "prefill" else 5)
    body = asked(max_tokens=1500, messages=[{"role": "user", "content": words}])
    with Connection(idle.port) as client:
        client.post(STREAMS, body)
        assert client.read_head() == 200
        url = f"{STREAMS}/{client.header('x-stream-id')}"
        if phase == "queue":
            until(lambda: idle.metric("millstream_queue_depth") == 1)
        if phase == "decode":
            client.read_until(b"id: 1-2\n")
        answers = [httpx.post(f"{idle.url}{url}/cancel", timeout=120) for _ in range(2)]
        client.read_all()
    for answer in answers:
        assert answer.status_code == 200
        assert answer.json() == {"id": client.header("x-stream-id"), "outcome": "cancelled"}
    # The last frame says how it ended, so the body is whole.
    assert client.complete
    last = frames(client.body)[-1]
    assert (last.event, last.data) == ("done", {"outcome": "cancelled"})
    until(lambda: idle.metric("millstream_engine_batch_size") == len(others), what="engine stopped")
    for other in others:
        other.close()


def test_a_cancelled_openai_stream_is_cut_and_never_looks_complete(idle: Server) -> None:
    with Connection(idle.port) as client:
        url = begin(client, resumable(max_tokens=1500), CHAT)
        client.read_until(b"id: 1-2\n")
        httpx.post(f"{idle.url}{url}/cancel", timeout=120)
        client.read_all()
    assert not client.complete
    assert b"[DONE]" not in client.body


# --- openai-python ----------------------------------------------------------------------------


def test_openai_python_reads_a_resumable_stream_as_any_other(
    idle: Server, client: openai.OpenAI, truth: str
) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": str(MESSAGES[0]["content"])}],
        temperature=0,
        max_tokens=TOKENS,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
        extra_headers={"X-Stream-Resumable": "1"},
    )
    chunks = list(stream)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == truth
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == TOKENS


def test_comments_between_the_ids_do_not_disturb_openai_python(
    idle: Server, client: openai.OpenAI
) -> None:
    # openai-python#2722: after an id, a blank line behind a comment made it parse empty data.
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Count to a hundred."}],
        max_tokens=40,
        stream=True,
        extra_body={"ignore_eos": True},
        extra_headers={"X-Stream-Resumable": "1"},
    )
    url = f"{STREAMS}/{stream.response.headers['x-stream-id']}"
    first = next(stream)
    (engine,) = engine_pids(idle.log.parent)
    with Connection(idle.port) as witness:
        os.kill(engine, signal.SIGSTOP)
        try:
            witness.get(url)
            # Both connections are quiet for as long.
            witness.read_until(b"\n:\n:\n")
        finally:
            os.kill(engine, signal.SIGCONT)
        chunks = [first, *stream]
        witness.read_all()
    assert b"id: 1-1\n" in witness.body.partition(b"\n:\n:\n")[0]
    assert chunks[-1].choices[0].finish_reason == "length"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == openai_text(frames(witness.body))


def test_openai_python_is_cut_off_and_comes_back_with_httpx(
    idle: Server, client: openai.OpenAI, truth: str
) -> None:
    text, last = "", ""
    answer = client.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=[{"role": "user", "content": str(MESSAGES[0]["content"])}],
        temperature=0,
        max_tokens=TOKENS,
        stream=True,
        extra_body={"ignore_eos": True, "stream_options": {"resumable": True}},
    )
    url = answer.headers["link"].split(">")[0].lstrip("<")
    for count, chunk in enumerate(answer.parse(), 1):
        text += chunk.choices[0].delta.content or ""
        last = f"1-{count}"
        if count == 7:
            break
    answer.http_response.close()
    resumed = httpx.get(f"{idle.url}{url}", headers={"Last-Event-ID": last}, timeout=60)
    assert text + openai_text(frames(resumed.content)) == truth
    assert resumed.text.endswith("data: [DONE]\n\n")
