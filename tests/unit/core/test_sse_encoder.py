"""What frames look like, dialect by dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream._core import Encoder, SseParser
from millstream.types import Kind, Outcome

NOON_NS = 1_796_040_000_123_456_789
TOKEN = (1, NOON_NS, Kind.TOKEN, 0, 1, "hi")
FINISH = (2, NOON_NS, Kind.FINISH, 0, 0, "stop")
USAGE = (3, NOON_NS, Kind.USAGE, 0, 0, '{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}')
ERROR = (3, NOON_NS, Kind.ERROR, 0, 0, '{"message":"gone","type":"server_error","code":null}')
COMPLETED = (4, NOON_NS, Kind.END, 0, 0, "completed")
WHOLE_STREAM = [TOKEN, FINISH, USAGE, COMPLETED]


def encoder(dialect: str = "chat", **options: Any) -> Encoder:
    return Encoder(dialect=dialect, chunk_id="chatcmpl-1", model="m", created=7, **options)


def chunks(frames: bytes) -> list[Any]:
    return [json.loads(event.data) for event in SseParser().feed(frames) if event.data != "[DONE]"]


def test_a_chat_stream_by_default_is_data_lines_only() -> None:
    head = (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m",'
        b'"choices":[{"index":0,"delta":'
    )
    assert encoder().encode(WHOLE_STREAM) == (
        head
        + b'{"role":"assistant","content":"hi"},"logprobs":null,"finish_reason":null}]}\n\n'
        + head
        + b'{},"logprobs":null,"finish_reason":"stop"}]}\n\n'
        + b"data: [DONE]\n\n"
    )


def test_a_completion_stream_carries_text() -> None:
    token, finish = chunks(encoder("completion").encode(WHOLE_STREAM))
    assert token["object"] == "text_completion"
    assert token["choices"] == [{"index": 0, "text": "hi", "logprobs": None, "finish_reason": None}]
    assert finish["choices"] == [
        {"index": 0, "text": "", "logprobs": None, "finish_reason": "stop"}
    ]


def test_native_events_are_named() -> None:
    assert encoder("native").encode([*WHOLE_STREAM[:3], ERROR, COMPLETED]) == (
        b'event: token\ndata: {"choice":0,"text":"hi","tokens":1}\n\n'
        b'event: finish\ndata: {"choice":0,"finish_reason":"stop"}\n\n'
        b'event: usage\ndata: {"usage":' + USAGE[5].encode() + b"}\n\n"
        b'event: error\ndata: {"error":' + ERROR[5].encode() + b"}\n\n"
        b'event: done\ndata: {"outcome":"completed"}\n\n'
    )


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("chat", ["choices", "choices"]),
        ("completion", ["choices", "choices"]),
        ("native", ["token", "finish", "usage", "done"]),
    ],
)
def test_ndjson_is_one_object_a_line_and_no_done_marker(dialect: str, expected: list[str]) -> None:
    frames = encoder(dialect, framing="ndjson").encode(WHOLE_STREAM)
    assert frames.endswith(b"}\n")
    lines = [json.loads(line) for line in frames.removesuffix(b"\n").split(b"\n")]
    if dialect == "native":
        assert [line["event"] for line in lines] == expected
        assert all(next(iter(line)) == "event" for line in lines)
    else:
        assert [list(line)[-1] for line in lines] == expected


def test_role_comes_once_for_each_choice() -> None:
    records = [
        (1, 0, Kind.TOKEN, 0, 1, "a"),
        (2, 0, Kind.FINISH, 64, 0, "stop"),
        (3, 0, Kind.TOKEN, 0, 1, "b"),
        (4, 0, Kind.TOKEN, 65535, 1, "c"),
        (5, 0, Kind.FINISH, 65535, 0, "stop"),
    ]
    one = encoder()
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(one.encode(records))]
    assert ["role" in delta for delta in deltas] == [True, True, False, True, False]
    assert "role" not in chunks(one.encode(records[:1]))[0]["choices"][0]["delta"]


def test_a_resumed_encoder_writes_no_role_and_leaves_its_origin_alone() -> None:
    origin = encoder()
    assert b"role" not in origin.resumed().encode(WHOLE_STREAM)
    assert b"role" in origin.encode(WHOLE_STREAM)


@pytest.mark.parametrize("dialect", ["chat", "completion"])
def test_usage_is_one_chunk_without_choices_and_null_before(dialect: str) -> None:
    # Portkey-AI/gateway#1338 (sent twice), BerriAI/litellm#9657 (no null in the other chunks)
    frames = encoder(dialect, include_usage=True).encode(WHOLE_STREAM)
    assert frames.endswith(b"data: [DONE]\n\n")
    token, finish, usage = chunks(frames)
    assert (token["usage"], finish["usage"]) == (None, None)
    assert usage["choices"] == []
    assert usage["usage"] == json.loads(USAGE[5])


@pytest.mark.parametrize("dialect", ["chat", "completion"])
def test_unasked_usage_writes_nothing_not_even_an_id(dialect: str) -> None:
    assert encoder(dialect, epoch=3, metadata=True).encode([USAGE]) == b""


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("dialect", ["chat", "completion"])
def test_only_a_whole_answer_ends_in_done(dialect: str, outcome: Outcome) -> None:
    # BerriAI/litellm#33404: a cut upstream dressed up as success
    end = (4, NOON_NS, Kind.END, 0, 0, outcome)
    whole = outcome in (Outcome.COMPLETED, Outcome.LENGTH)
    assert encoder(dialect, epoch=3).encode([end]) == (
        b"id: 3-4\ndata: [DONE]\n\n" if whole else b""
    )


@pytest.mark.parametrize("outcome", Outcome)
def test_a_native_stream_always_says_how_it_ended(outcome: Outcome) -> None:
    # BerriAI/litellm#39748: a 200 without a terminal event
    (event,) = SseParser().feed(encoder("native").encode([(4, 0, Kind.END, 0, 0, outcome)]))
    assert (event.event, json.loads(event.data)) == ("done", {"outcome": outcome})


@pytest.mark.parametrize("dialect", ["chat", "completion"])
def test_an_error_frame_has_the_error_alone(dialect: str) -> None:
    frame = encoder(dialect, metadata=True, include_usage=True).encode([ERROR])
    assert frame == b'data: {"error":' + ERROR[5].encode() + b"}\n\n"


def test_line_ends_between_json_tokens_cannot_cut_a_frame() -> None:
    pretty = json.dumps({"prompt_tokens": 5}, indent=1).replace("\n", "\r\n")
    (event,) = SseParser().feed(encoder("native").encode([(1, 0, Kind.USAGE, 0, 0, pretty)]))
    assert json.loads(event.data) == {"usage": {"prompt_tokens": 5}}


@pytest.mark.parametrize("dialect", ["chat", "completion", "native"])
def test_metadata_says_where_a_chunk_stands(dialect: str) -> None:
    (chunk,) = chunks(encoder(dialect, metadata=True).encode([TOKEN]))
    assert chunk["stream"] == {
        "seq": 1,
        "ts": "2026-11-30T12:00:00.123456Z",
        "model_id": "m",
        "chunk_id": "chatcmpl-1-1",
        "token_count": 1,
    }


def test_ids_are_epoch_and_seq_before_the_event_name() -> None:
    frames = encoder("native", epoch=3).encode([TOKEN, (2**64 - 1, 0, Kind.TOKEN, 0, 1, "")])
    assert frames.startswith(b"id: 3-1\nevent: token\ndata: ")
    assert [event.id for event in SseParser().feed(frames)] == ["3-1", "3-18446744073709551615"]


@pytest.mark.parametrize("text", ['"\\', "\r\n\t", "\x00\x1f\x7f", "\u2028\u2029\x85", "漢🦀", ""])
def test_text_survives_and_frames_stay_whole(text: str) -> None:
    frames = encoder().encode([(1, 0, Kind.TOKEN, 0, 1, text)])
    (chunk,) = chunks(frames)
    assert chunk["choices"][0]["delta"]["content"] == text
    assert frames.count(b"\n") == 2
    assert b"\r" not in frames


def test_names_are_escaped() -> None:
    names = 'a"\\\nb'
    odd = Encoder(dialect="chat", chunk_id=names, model=names, created=0, metadata=True)
    (chunk,) = chunks(odd.encode([TOKEN]))
    assert (chunk["id"], chunk["model"], chunk["stream"]["model_id"]) == (names, names, names)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"dialect": "openai"}, ValueError),
        ({"framing": "xml"}, ValueError),
        ({"model": "\ud800"}, ValueError),
        ({"created": -1}, OverflowError),
        ({"epoch": 2**64}, OverflowError),
        ({"dialect": None}, TypeError),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    good: dict[str, Any] = {"dialect": "chat", "chunk_id": "c", "model": "m", "created": 0}
    with pytest.raises(error):
        Encoder(**good | options)


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ((1, 0, 0, 0, 1, "a"), ValueError),
        ((1, 0, 8, 0, 1, "a"), ValueError),
        ((1, 0, 1, 0, 1, "\ud800"), ValueError),
        ((-1, 0, 1, 0, 1, "a"), OverflowError),
        ((1, 0, 1, 65536, 1, "a"), OverflowError),
    ],
)
def test_a_bad_record_writes_nothing_of_its_batch(
    record: tuple[int, int, int, int, int, str], error: type[Exception]
) -> None:
    one = encoder()
    with pytest.raises(error):
        one.encode([TOKEN, record])
    assert b"role" in one.encode([TOKEN])
