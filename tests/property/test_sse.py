"""The Rust encoder against its twins, byte for byte."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import _core
from millstream.types import Kind, Outcome, Settlement
from tests.reference import sse as twin
from tests.reference.sse_ledger import Ledger
from tests.reference.sse_responses import ResponseEncoder

U64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(
    st.sampled_from('"\\/\n\r\t\b\f\0\x1b\x7f\x85\u2028é漢🦀a:,}] '), max_size=40
)
COUNT = st.integers(0, 2**40)
OUTCOMES = st.sampled_from([str(outcome) for outcome in Outcome])
MAX_BRANCHES = 3


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


USAGES = st.fixed_dictionaries(
    {"prompt_tokens": COUNT, "completion_tokens": COUNT, "total_tokens": COUNT},
    optional={
        "prompt_tokens_details": st.fixed_dictionaries({}, optional={"cached_tokens": COUNT}),
        "completion_tokens_details": st.none()
        | st.fixed_dictionaries({"audio_tokens": COUNT, "reasoning_tokens": COUNT}),
    },
)
ERRORS = st.fixed_dictionaries(
    {"message": TEXT, "type": st.just("server_error"), "param": st.none(), "code": st.none() | TEXT}
)
SETTLEMENTS = st.builds(Settlement, COUNT, COUNT, st.booleans(), st.none() | COUNT)
TERMINALS = st.builds(
    lambda outcome, figures: f"{outcome} {figures.to_json()}", OUTCOMES, SETTLEMENTS
)
PAYLOADS: dict[Kind, st.SearchStrategy[str]] = {
    Kind.TOKEN: TEXT,
    Kind.FINISH: st.sampled_from(["stop", "length", "content_filter"]) | TEXT,
    Kind.USAGE: USAGES.map(compact),
    Kind.ERROR: ERRORS.map(compact),
    Kind.END: OUTCOMES | TEXT.filter(lambda text: " {" not in text) | TERMINALS,
    Kind.HANDOVER: st.fixed_dictionaries({"stream_id": TEXT, "retry_ms": U64}).map(compact),
    Kind.BRANCH_END: OUTCOMES,
}
KINDS = st.sampled_from(Kind) | st.just(Kind.TOKEN)


@st.composite
def records(draw: st.DrawFn, branches: int = 1) -> twin.Record:
    kind = draw(KINDS)
    return twin.Record(
        seq=draw(U64),
        time_ns=draw(U64),
        kind=kind,
        choice=draw(st.integers(0, 2) | st.integers(0, 2**16 - 1)),
        token_count=draw(st.integers(0, 2**32 - 1)),
        text=draw(PAYLOADS[kind]),
        branch=draw(st.integers(0, branches - 1)),
    )


@st.composite
def streams(draw: st.DrawFn, branches: int = 1, max_size: int = 24) -> list[twin.Record]:
    """Records in their order, mostly from the first on; sometimes some are missing."""
    drawn = draw(st.lists(records(branches), max_size=max_size))
    start = draw(st.just(1) | st.integers(1, 2**63))
    hole = draw(st.none() | st.integers(0, max_size))
    return [
        record._replace(seq=start + at + (hole is not None and at >= hole))
        for at, record in enumerate(drawn)
    ]


NAMES = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=MAX_BRANCHES)
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
        "integrity": st.booleans(),
        "fields": st.booleans(),
        "retry_ms": st.none() | U64,
        "stream_id": TEXT,
        "branches": st.none() | NAMES,
    }
)


@st.composite
def encoded(draw: st.DrawFn) -> tuple[dict[str, Any], list[twin.Record]]:
    """Options, and a stream whose branches they name."""
    options = draw(OPTIONS)
    branches: Any = options["branches"] or [()]
    return options, draw(streams(len(branches)))


@settings(max_examples=500, deadline=None)
@given(case=encoded(), resumed=st.booleans(), cut=st.integers(0, 24))
def test_frames_equal_the_twins_byte_for_byte(
    case: tuple[dict[str, Any], list[twin.Record]], resumed: bool, cut: int
) -> None:
    options, stream = case
    encoder, reference = _core.Encoder(**options), twin.Encoder(**options)
    ledger = Ledger(options["stream_id"])
    if resumed:
        encoder, reference.writes_roles = encoder.resumed(), False
    for batch in (stream[:cut], stream[cut:]):
        assert encoder.encode(batch) == reference.encode(batch, ledger)


@settings(max_examples=100, deadline=None)
@given(case=encoded())
def test_batching_does_not_change_the_bytes(
    case: tuple[dict[str, Any], list[twin.Record]],
) -> None:
    options, stream = case
    together, apart = _core.Encoder(**options), _core.Encoder(**options)
    assert together.encode(stream) == b"".join(apart.encode([one]) for one in stream)


@settings(max_examples=200, deadline=None)
@given(case=encoded())
def test_every_frame_is_one_event_and_moves_the_client_to_its_record(
    case: tuple[dict[str, Any], list[twin.Record]],
) -> None:
    options, stream = case
    encoder = _core.Encoder(**options | {"framing": "sse"})
    parser = _core.SseParser()
    place, retries = "", []
    for record in stream:
        frames = encoder.encode([record])
        assert b"\r" not in frames
        events = parser.feed(frames)
        assert len(events) == frames.count(b"\n\n")
        assert not parser.finish()
        for event in events:
            assert event.data == "[DONE]" or isinstance(json.loads(event.data), dict)
        retries += [event.retry for event in events if event.retry is not None]
        if frames and options["epoch"] is not None:
            assert events[-1].id.startswith(f"{options['epoch']}-{record.seq}")
            place = events[-1].id
        assert parser.last_event_id == place
    given_retries = [] if options["retry_ms"] is None else [options["retry_ms"]]
    handovers = [json.loads(one.text)["retry_ms"] for one in stream if one.kind == Kind.HANDOVER]
    assert set(retries) <= {*given_retries, *handovers}
    assert len(retries) <= len(given_retries) + len(handovers)


TEMPLATES = st.fixed_dictionaries(
    {"id": TEXT, "object": st.just("response"), "metadata": st.dictionaries(TEXT, TEXT, max_size=2)}
)
RESPONSE_OPTIONS = st.fixed_dictionaries(
    {
        "framing": st.sampled_from(["sse", "ndjson"]),
        "chunk_id": TEXT | TEXT.map("resp_".__add__),
        "model": TEXT,
        "created": U64,
        "metadata": st.booleans(),
        "epoch": st.none() | U64,
        "integrity": st.booleans(),
        "retry_ms": st.none() | U64,
        "response": st.none() | TEMPLATES.map(compact),
        "starting_after": st.none() | st.integers(0, 20),
    }
)
ENDINGS = st.tuples(
    st.lists(st.just(Kind.FINISH), max_size=1),
    st.lists(st.sampled_from([Kind.USAGE, Kind.ERROR]), max_size=1),
    st.lists(st.just(Kind.HANDOVER), max_size=1),
).map(lambda kinds: [kind for part in kinds for kind in part])


@st.composite
def responses(draw: st.DrawFn) -> list[twin.Record]:
    """The records of one choice, from the first to the last: tokens, finish, last word, end."""
    kinds = [*[Kind.TOKEN] * draw(st.integers(0, 12)), *draw(ENDINGS), Kind.END]
    return [
        twin.Record(seq, seq * 10**9, kind, 0, 1, draw(PAYLOADS[kind]))
        for seq, kind in enumerate(kinds, 1)
    ]


@settings(max_examples=300, deadline=None)
@given(options=RESPONSE_OPTIONS, stream=responses())
def test_response_events_equal_the_twins_byte_for_byte(
    options: dict[str, Any], stream: list[twin.Record]
) -> None:
    encoder = _core.Encoder(dialect="responses", stream_id="s", **options)
    assert encoder.encode(stream) == ResponseEncoder(**options).encode(stream, Ledger("s"))


@settings(max_examples=200, deadline=None)
@given(options=RESPONSE_OPTIONS, stream=responses(), after=st.integers(1, 16))
def test_a_client_that_comes_back_gets_the_same_bytes_of_a_response(
    options: dict[str, Any], stream: list[twin.Record], after: int
) -> None:
    options = {"dialect": "responses", "stream_id": "s"} | options | {"retry_ms": None}
    seen = _core.Encoder(**options).encode(stream[:after])
    whole = _core.Encoder(**options).encode(stream)
    later = _core.Encoder(**options, after_seq=after)
    assert later.prelude() == b""
    assert later.encode(stream) == whole[len(seen) :]
