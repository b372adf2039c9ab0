"""What a reader that fell behind is given in the place of what is gone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millstream._core import Log
from millstream.store.descriptor import BranchDescriptor, Descriptor, DialectName
from millstream.store.recording import Recording
from millstream.streams.encoding import Framing, encoder_for
from millstream.streams.frames import SnapshotReader, last_token
from millstream.types import Kind, Outcome, Usage

KEPT = 16


def recording(
    *, dialect: DialectName = "native", branches: int = 1, max_bytes: int = 4096
) -> Recording:
    descriptor = Descriptor(
        id="s",
        route="stream",
        dialect=dialect,
        created=1_700_000_000,
        branches=tuple(
            BranchDescriptor(model=f"m{index}", chunk_id=f"c{index}") for index in range(branches)
        ),
        resumable=True,
    )
    return Recording(descriptor, Log(max_bytes=max_bytes, max_records=KEPT, branches=branches))


def tokens(log: Log, first: int, last: int, *, choice: int = 0, branch: int = 0) -> str:
    """Append numbered tokens; their text."""
    texts = [f"{number} " for number in range(first, last + 1)]
    for text in texts:
        log.append(Kind.TOKEN, text, choice=choice, branch=branch, token_count=1, time_ns=1)
    return "".join(texts)


def snapshots(
    stream: Recording,
    *,
    after: int = 0,
    dialect: DialectName = "native",
    framing: Framing = "ndjson",
) -> SnapshotReader:
    encoder = encoder_for(stream.descriptor, framing=framing)
    return SnapshotReader(stream, encoder, after=after, dialect=dialect, framing=framing)


def everything(reader: SnapshotReader) -> list[dict[str, Any]]:
    body = b""
    while chunk := reader.take():
        body += chunk
    return [json.loads(line) for line in body.splitlines()]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["event"] == "token")


def test_nothing_is_bridged_where_nothing_is_gone() -> None:
    stream = recording()
    text = tokens(stream.log, 1, KEPT)
    events = everything(snapshots(stream))
    assert {event["event"] for event in events} == {"token"}
    assert text_of(events) == text


def test_a_gap_brings_the_text_so_far_and_the_reader_goes_on_behind_it() -> None:
    stream = recording()
    text = tokens(stream.log, 1, 40)
    reader = snapshots(stream, after=3)
    (gap,) = everything(reader)
    assert gap == {
        "event": "gap",
        "missing": {"first": 4, "last": 24},
        "oldest": 25,
        "latest": 40,
        "text": [
            {"branch": 0, "choice": 0, "omitted_bytes": 0, "text": text, "finish_reason": None}
        ],
        "ended": [],
    }
    more = tokens(stream.log, 41, 43)
    assert text_of(everything(reader)) == more
    assert reader.gap is None


def test_a_reader_that_falls_behind_again_is_given_another_gap() -> None:
    stream = recording()
    text = tokens(stream.log, 1, 30)
    reader = snapshots(stream)
    everything(reader)
    text += tokens(stream.log, 31, 80)
    (gap,) = everything(reader)
    assert gap["missing"] == {"first": 31, "last": 64}
    assert gap["text"][0]["text"] == text


def test_what_comes_after_the_last_token_is_still_sent() -> None:
    stream = recording()
    tokens(stream.log, 1, 40)
    stream.log.append(Kind.FINISH, "stop", time_ns=1)
    stream.log.append(Kind.USAGE, Usage(1, 40).to_json(), time_ns=1)
    stream.log.close(Outcome.COMPLETED, time_ns=1)
    reader = snapshots(stream)
    gap, *rest = everything(reader)
    assert gap["latest"] == 40
    assert gap["text"][0]["finish_reason"] == "stop"
    assert [event["event"] for event in rest] == ["finish", "usage", "done"]
    assert reader.finished


def test_the_end_alone_is_sent_where_nothing_else_is_kept() -> None:
    stream = recording(max_bytes=8)
    stream.log.append(Kind.TOKEN, "x" * 100, token_count=1, time_ns=1)
    stream.log.close(Outcome.COMPLETED, time_ns=1)
    reader = snapshots(stream)
    gap, end = everything(reader)
    assert gap["missing"] == {"first": 1, "last": 1}
    assert gap["text"][0]["omitted_bytes"] + len(gap["text"][0]["text"]) == 100
    assert end == {"event": "done", "id": "1-2", "outcome": "completed"}


def test_choices_and_branches_have_their_own_texts_and_ends() -> None:
    stream = recording(branches=2)
    first = tokens(stream.log, 1, 3)
    second = tokens(stream.log, 1, 5, choice=1)
    stream.log.append(Kind.FINISH, "length", time_ns=1)
    stream.log.append(Kind.USAGE, Usage(1, 8).to_json(), time_ns=1)
    stream.log.append(Kind.BRANCH_END, "length", time_ns=1)
    other = tokens(stream.log, 1, 30, branch=1)
    (gap,) = everything(snapshots(stream))
    texts = {(one["branch"], one["choice"]): one["text"] for one in gap["text"]}
    assert texts == {(0, 0): first, (0, 1): second, (1, 0): other}
    usage = {"prompt_tokens": 1, "completion_tokens": 8, "total_tokens": 9}
    assert gap["ended"] == [{"branch": 0, "outcome": "length", "usage": usage}]


@pytest.mark.parametrize(
    ("dialect", "kind"), [("chat", "chat.completion.chunk"), ("completion", "text_completion")]
)
def test_in_openais_dialects_a_gap_is_a_chunk_without_choices(
    dialect: DialectName, kind: str
) -> None:
    stream = recording(dialect=dialect)
    tokens(stream.log, 1, 40)
    frame = snapshots(stream, dialect=dialect, framing="sse").take()
    assert frame.startswith(b"data: {")
    assert frame.endswith(b"}\n\n")
    chunk = json.loads(frame.removeprefix(b"data: "))
    gap = chunk["stream"].pop("gap")
    assert gap["missing"] == {"first": 1, "last": 24}
    assert chunk == {
        "id": "c0",
        "object": kind,
        "created": 1_700_000_000,
        "model": "m0",
        "choices": [],
        "stream": {},
    }


def test_a_native_gap_is_an_event_without_an_id_in_one_line_of_data() -> None:
    stream = recording()
    stream.log.append(Kind.TOKEN, "a\n\r\n\u2028b", token_count=1, time_ns=1)
    tokens(stream.log, 1, 40)
    frame = snapshots(stream, framing="sse").take().decode()
    event, data, *rest = frame.split("\n")
    assert event == "event: gap"
    assert json.loads(data.removeprefix("data: "))["text"][0]["text"].startswith("a\n\r\n\u2028b")
    assert rest == ["", ""]


def test_the_last_token_is_found_among_what_is_kept() -> None:
    log = Log()
    assert last_token(log, oldest=1) == 0
    tokens(log, 1, 3)
    log.append(Kind.FINISH, "stop", time_ns=1)
    assert last_token(log, oldest=1) == 3
    assert last_token(log, oldest=4) == 3
