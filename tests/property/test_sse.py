"""The Rust encoder and parser against their twins, byte for byte."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import _core
from millstream.types import Kind, Outcome
from tests.reference import sse as twin

U64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(
    st.sampled_from('"\\/\n\r\t\b\f\0\x1b\x7f\x85\u2028é漢🦀a '), max_size=40
)
COUNT = st.integers(0, 2**40)


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


PAYLOADS: dict[Kind, st.SearchStrategy[str]] = {
    Kind.TOKEN: TEXT,
    Kind.FINISH: st.sampled_from(["stop", "length", "content_filter"]) | TEXT,
    Kind.USAGE: st.builds(
        lambda prompt, completion: compact(
            {"prompt_tokens": prompt, "completion_tokens": completion}
        ),
        COUNT,
        COUNT,
    ),
    Kind.ERROR: st.builds(
        lambda message: compact({"message": message, "type": "server_error", "code": None}), TEXT
    ),
    Kind.END: st.sampled_from([str(outcome) for outcome in Outcome]) | TEXT,
}


@st.composite
def records(draw: st.DrawFn) -> twin.Record:
    kind = draw(st.sampled_from(Kind))
    return twin.Record(
        seq=draw(U64),
        time_ns=draw(U64),
        kind=kind,
        choice=draw(st.integers(0, 2) | st.integers(0, 2**16 - 1)),
        token_count=draw(st.integers(0, 2**32 - 1)),
        text=draw(PAYLOADS[kind]),
    )


OPTIONS = st.fixed_dictionaries(
    {
        "dialect": st.sampled_from(["chat", "completion", "native"]),
        "framing": st.sampled_from(["sse", "ndjson"]),
        "chunk_id": TEXT,
        "model": TEXT,
        "created": U64,
        "include_usage": st.booleans(),
        "metadata": st.booleans(),
        "epoch": st.none() | U64,
    }
)
BATCHES = st.lists(st.lists(records(), max_size=8), max_size=4)


@settings(max_examples=300, deadline=None)
@given(options=OPTIONS, batches=BATCHES, resumed=st.booleans())
def test_frames_equal_the_twins_byte_for_byte(
    options: dict[str, Any], batches: list[list[twin.Record]], resumed: bool
) -> None:
    encoder, reference = _core.Encoder(**options), twin.Encoder(**options)
    if resumed:
        encoder, reference.writes_roles = encoder.resumed(), False
    for batch in batches:
        assert encoder.encode(batch) == reference.encode(batch)


@settings(max_examples=100, deadline=None)
@given(options=OPTIONS, batches=BATCHES)
def test_batching_does_not_change_the_bytes(
    options: dict[str, Any], batches: list[list[twin.Record]]
) -> None:
    together, apart = _core.Encoder(**options), _core.Encoder(**options)
    everything = [record for batch in batches for record in batch]
    assert together.encode(everything) == b"".join(apart.encode([one]) for one in everything)


@settings(max_examples=100, deadline=None)
@given(options=OPTIONS, batch=st.lists(records(), max_size=8))
def test_the_parser_gives_back_one_event_for_each_frame(
    options: dict[str, Any], batch: list[twin.Record]
) -> None:
    frames = [_core.Encoder(**options | {"framing": "sse"}).encode([one]) for one in batch]
    events = [event for frame in frames for event in _core.SseParser().feed(frame)]
    written = [one for one, frame in zip(batch, frames, strict=True) if frame]
    assert len(events) == len(written)
    for record, event in zip(written, events, strict=True):
        epoch = options["epoch"]
        assert event.id == ("" if epoch is None else f"{epoch}-{record.seq}")
        assert event.data == "[DONE]" or isinstance(json.loads(event.data), dict)


FIELDS = [b"data", b"id", b"event", b"retry", b"dat", b"Data", b":", b": ", b" ", b"x" * 40]
NUMBERS = [b"0", b"12", b"-1", b"18446744073709551615", b"18446744073709551616"]
LINE_ENDS = [b"\r", b"\n", b"\r\n", b"\n\n", b"\r\r", b"\0", b"\x0b"]
ODD_TEXT = ["é🦀\u2028\x85".encode(), b"\xff", b"\xf0\x9f", b"\xed\xa0\x80", twin.BYTE_ORDER_MARK]
FRAGMENTS = st.sampled_from([*FIELDS, *NUMBERS, *LINE_ENDS, *ODD_TEXT])
STREAMS = st.lists(FRAGMENTS | st.binary(max_size=6), max_size=80).map(b"".join)


def split(stream: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(bounds)]


def outcome_of(parser: _core.SseParser | twin.Parser, pieces: list[bytes]) -> tuple[object, ...]:
    """Everything that a caller can see of a parser over a stream."""
    events: list[tuple[object, ...]] = []
    end: object = "too large"
    try:
        for piece in pieces:
            events += [(one.event, one.data, one.id, one.retry) for one in parser.feed(piece)]
        end = parser.finish()
    except (_core.SseEventTooLarge, twin.TooLarge):
        pass
    return events, end, parser.last_event_id, parser.retry


@settings(max_examples=400, deadline=None)
@given(
    stream=STREAMS,
    cuts=st.lists(st.integers(0, 300), max_size=12),
    limit=st.just(1 << 20) | st.integers(1, 60),
)
def test_events_equal_the_twins_at_any_split(stream: bytes, cuts: list[int], limit: int) -> None:
    expected = outcome_of(twin.Parser(max_event_bytes=limit), [stream])
    for pieces in ([stream], split(stream, cuts), [bytes([byte]) for byte in stream]):
        assert outcome_of(_core.SseParser(max_event_bytes=limit), pieces) == expected
        assert outcome_of(twin.Parser(max_event_bytes=limit), pieces) == expected
