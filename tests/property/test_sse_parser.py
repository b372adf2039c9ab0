"""The Rust parser against its twin, at any split."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import _core
from tests.reference import sse as twin

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
