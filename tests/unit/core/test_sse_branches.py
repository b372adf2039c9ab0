"""Several models in one stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream._core import Encoder, SseParser
from millstream.types import Kind

Record = tuple[int, int, int, int, int, str] | tuple[int, int, int, int, int, str, int]

BRANCHES = [("small", "c-0"), ("large", "c-1")]
STREAM: list[Record] = [
    (1, 0, Kind.TOKEN, 0, 1, "a", 0),
    (2, 0, Kind.TOKEN, 0, 1, "b", 1),
    (3, 0, Kind.FINISH, 0, 0, "stop", 1),
    (4, 0, Kind.USAGE, 0, 0, '{"total_tokens":3}', 1),
    (5, 0, Kind.BRANCH_END, 0, 0, "completed", 1),
    (6, 0, Kind.ERROR, 0, 0, '{"message":"gone"}', 0),
    (7, 0, Kind.BRANCH_END, 0, 0, "upstream_error", 0),
    (8, 0, Kind.END, 0, 0, "upstream_error"),
]


def encoder(dialect: str, branches: Any = BRANCHES, **options: Any) -> Encoder:
    return Encoder(
        dialect=dialect, chunk_id="c", model="m", created=7, branches=branches, **options
    )


def test_native_events_say_to_which_branch_they_belong() -> None:
    events = SseParser().feed(encoder("native").encode(STREAM))
    assert [(event.event, json.loads(event.data)) for event in events] == [
        ("token", {"branch": 0, "model": "small", "choice": 0, "text": "a", "tokens": 1}),
        ("token", {"branch": 1, "model": "large", "choice": 0, "text": "b", "tokens": 1}),
        ("finish", {"branch": 1, "model": "large", "choice": 0, "finish_reason": "stop"}),
        ("usage", {"branch": 1, "usage": {"total_tokens": 3}}),
        ("branch_done", {"branch": 1, "outcome": "completed"}),
        ("error", {"branch": 0, "error": {"message": "gone"}}),
        ("branch_done", {"branch": 0, "outcome": "upstream_error"}),
        ("done", {"outcome": "upstream_error"}),
    ]


def test_the_mark_comes_first() -> None:
    assert b'data: {"branch":1,"model":"large","choice":0,' in encoder("native").encode(STREAM[1:2])
    line = encoder("native", framing="ndjson", epoch=3).encode(STREAM[1:2])
    assert line.startswith(b'{"event":"token","id":"3-2","branch":1,"model":"large","choice":0,')


def test_one_named_branch_needs_no_mark() -> None:
    frame = encoder("native", [("small", "c-0")], metadata=True).encode(STREAM[:1])
    (event,) = SseParser().feed(frame)
    token = json.loads(event.data)
    assert list(token) == ["choice", "text", "tokens", "stream"]
    assert (token["stream"]["model_id"], token["stream"]["chunk_id"]) == ("small", "c-0-1")


def test_chunks_have_the_names_of_their_branch_and_each_its_role() -> None:
    one = encoder("chat", include_usage=True, metadata=True, fields=True)
    frames = one.encode([record for record in STREAM if record[2] != Kind.ERROR])
    chunks = [json.loads(event.data) for event in SseParser().feed(frames)]
    assert [(chunk["model"], chunk["id"]) for chunk in chunks] == [
        ("small", "c-0"),
        ("large", "c-1"),
        ("large", "c-1"),
        ("large", "c-1"),
    ]
    assert [chunk["stream"]["chunk_id"] for chunk in chunks] == ["c-0-1", "c-1-2", "c-1-3", "c-1-4"]
    assert frames.count(b"model-id: large\nchunk-id: c-1-") == 3
    roles = [choice["delta"].get("role") for chunk in chunks for choice in chunk["choices"]]
    assert roles == ["assistant", "assistant", None]


def test_a_branch_that_has_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no branch 2 of 2"):
        encoder("native").encode([STREAM[0], (2, 0, Kind.TOKEN, 0, 1, "b", 2)])
    plain = Encoder(dialect="native", chunk_id="c", model="m", created=0)
    with pytest.raises(ValueError, match="no branch 1 of 1"):
        plain.encode([STREAM[1]])


@pytest.mark.parametrize(
    ("dialect", "branches", "reason"),
    [
        ("native", [], "1 to 256 branches"),
        ("native", [("m", "c")] * 257, "1 to 256 branches"),
        ("responses", BRANCHES, "no several branches"),
    ],
)
def test_bad_branches_are_refused(dialect: str, branches: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        encoder(dialect, branches)


@pytest.mark.parametrize("record", [STREAM[0][:5], (*STREAM[0], 1)])
def test_a_record_has_six_or_seven_values(record: Any) -> None:
    with pytest.raises(ValueError, match="6 or 7 values"):
        encoder("native").encode([record])
