"""What lets a client come back: ids, reconnection time, hand-over, lines of metadata."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream._core import Encoder, SseParser
from millstream.types import Kind

TOKEN = (1, 0, Kind.TOKEN, 0, 1, "hi")
MORE = (2, 1_000, Kind.TOKEN, 0, 3, "!")
FINISH = (3, 2_000, Kind.FINISH, 0, 0, "stop")
USAGE = (4, 2_000, Kind.USAGE, 0, 0, '{"prompt_tokens":5,"completion_tokens":4}')
ERROR = (4, 2_000, Kind.ERROR, 0, 0, '{"message":"gone"}')
HANDOVER = (5, 3_000, Kind.HANDOVER, 0, 0, '{"stream_id":"s1","retry_ms":2750}')
COMPLETED = (5, 3_000, Kind.END, 0, 0, "completed")
SHED = (6, 3_000, Kind.END, 0, 0, "shed")
DIALECTS = ["chat", "completion", "native", "responses"]


def encoder(dialect: str = "chat", **options: Any) -> Encoder:
    return Encoder(dialect=dialect, chunk_id="c-1", model="m", created=7, **options)


def lines(frames: bytes) -> list[str]:
    return frames.decode().splitlines()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_reconnection_time_comes_once_with_the_first_data(dialect: str) -> None:
    # turnstonelabs/turnstone#542; openai/openai-python#2722: a frame of `retry` alone has no data
    one = encoder(dialect, epoch=3, retry_ms=2600)
    body = one.encode([(1, 0, Kind.USAGE, 0, 0, "{}")] if dialect == "chat" else [])
    assert body == b""
    body = one.prelude() + one.encode([TOKEN, MORE, FINISH, USAGE, COMPLETED])
    assert body.count(b"retry: ") == 1
    first, *later = SseParser().feed(body)
    assert first.retry == 2600
    assert {event.retry for event in later} == {None}


def test_lines_come_in_one_order() -> None:
    one = encoder("native", epoch=3, retry_ms=9, fields=True)
    assert lines(one.encode([TOKEN])) == [
        "id: 3-1",
        "retry: 9",
        "event: token",
        "model-id: m",
        "chunk-id: c-1-1",
        "token-count: 1",
        'data: {"choice":0,"text":"hi","tokens":1}',
        "",
    ]


def test_a_copy_for_another_reader_has_its_own_reconnection_time_to_give() -> None:
    origin = encoder("native", retry_ms=9)
    assert b"retry: 9\n" in origin.resumed().encode([TOKEN])
    assert b"retry: 9\n" in origin.encode([TOKEN])
    assert b"retry" not in origin.resumed().encode([TOKEN])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_ndjson_has_no_lines_of_sse(dialect: str) -> None:
    one = encoder(dialect, framing="ndjson", epoch=3, retry_ms=9, fields=True)
    body = one.prelude() + one.encode([TOKEN, FINISH, USAGE, HANDOVER, SHED])
    assert all(isinstance(json.loads(line), dict) for line in lines(body))


def test_ndjson_ids_are_members() -> None:
    native = encoder("native", framing="ndjson", epoch=3).encode([TOKEN, COMPLETED])
    assert [list(json.loads(line).items())[:2] for line in lines(native)] == [
        [("event", "token"), ("id", "3-1")],
        [("event", "done"), ("id", "3-5")],
    ]
    chat = encoder(framing="ndjson", epoch=3, metadata=True, include_usage=True)
    members = [json.loads(line)["stream"] for line in lines(chat.encode([TOKEN, FINISH, USAGE]))]
    assert [next(iter(member.items())) for member in members] == [
        ("id", "3-1"),
        ("id", "3-3"),
        ("id", "3-4"),
    ]
    bare = encoder("completion", framing="ndjson", epoch=3).encode([TOKEN])
    assert json.loads(bare)["stream"] == {"id": "3-1"}


@pytest.mark.parametrize("dialect", ["chat", "completion", "native"])
def test_lines_of_metadata_stand_where_metadata_would(dialect: str) -> None:
    records = [TOKEN, MORE, FINISH, USAGE, ERROR, HANDOVER, COMPLETED]
    fields = encoder(dialect, fields=True, include_usage=True)
    members = encoder(dialect, metadata=True, include_usage=True)
    for record in records:
        frame = fields.encode([record]).decode()
        (event,) = SseParser().feed(members.encode([record]))
        stream = None if event.data == "[DONE]" else json.loads(event.data).get("stream")
        is_marked = stream is not None and "seq" in stream
        assert ("model-id: m\n" in frame) == is_marked
        if stream is not None and is_marked:
            assert f"chunk-id: {stream['chunk_id']}\n" in frame
            assert f"token-count: {stream['token_count']}\n" in frame


def test_a_native_handover_says_where_and_when_to_go_on() -> None:
    frame = encoder("native", epoch=3, retry_ms=9).encode([HANDOVER])
    (event,) = SseParser().feed(frame)
    assert (event.event, event.id, event.retry) == ("handover", "3-5", 2750)
    assert json.loads(event.data) == {"stream_id": "s1", "retry_ms": 2750, "after": "3-5"}
    assert frame.count(b"retry: ") == 1


@pytest.mark.parametrize("dialect", ["chat", "completion"])
def test_an_openai_handover_is_a_chunk_without_choices(dialect: str) -> None:
    (event,) = SseParser().feed(encoder(dialect, epoch=3, include_usage=True).encode([HANDOVER]))
    chunk = json.loads(event.data)
    assert (chunk["choices"], chunk["usage"], event.retry) == ([], None, 2750)
    handover = {"stream_id": "s1", "retry_ms": 2750, "after": "3-5"}
    assert chunk["stream"] == {"handover": handover}


def test_a_handover_within_metadata_and_lines_is_one_member_of_several() -> None:
    one = encoder(framing="ndjson", epoch=3, metadata=True)
    stream = json.loads(one.encode([HANDOVER]))["stream"]
    assert list(stream) == [
        "id", "seq", "ts", "model_id", "chunk_id", "token_count", "handover"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "data", "retry"),
    [
        ("{}", {"after": "5"}, None),
        ("", {"after": "5"}, None),
        ('{"retry_ms":"soon"}', {"retry_ms": "soon", "after": "5"}, None),
        (
            '{ "stream_id" : "\\"retry_ms\\":1",\n"retry_ms" : 20 }',
            {"stream_id": '"retry_ms":1', "retry_ms": 20, "after": "5"},
            20,
        ),
    ],
)
def test_odd_handovers_are_still_one_event(
    text: str, data: dict[str, object], retry: int | None
) -> None:
    record = (5, 0, Kind.HANDOVER, 0, 0, text)
    (event,) = SseParser().feed(encoder("native").encode([record]))
    assert (json.loads(event.data), event.retry) == (data, retry)


@pytest.mark.parametrize("dialect", ["chat", "completion"])
def test_the_end_of_one_branch_is_no_chunk(dialect: str) -> None:
    record = (5, 0, Kind.BRANCH_END, 0, 0, "completed")
    assert encoder(dialect, epoch=3, retry_ms=5).encode([record]) == b""
