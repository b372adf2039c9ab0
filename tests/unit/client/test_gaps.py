"""Records that the server no longer has."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from millstream.client import (
    StreamGap,
)
from tests.reference.native import completed, frame
from tests.unit.client.reading import EVENTS, follower, read, read_text

STREAM = completed([f"t{n} " for n in range(10)])
BODY = b"".join(one.data for one in STREAM.frames())


def gap(first: int, last: int, *snapshots: Mapping[str, object]) -> bytes:
    value: dict[str, object] = {
        "missing": {"first": first, "last": last},
        "oldest": last + 1,
        "latest": 10,
    }
    return frame("gap", value | ({"text": list(snapshots)} if snapshots else {}))


def frames_after(seq: int) -> bytes:
    return b"".join(one.data for one in STREAM.frames(seq))


def test_a_gap_is_raised_with_what_is_missing() -> None:
    reading, pieces = follower(), list[str]()
    body = STREAM.frames()[0].data + gap(2, 6) + frames_after(6)
    with pytest.raises(StreamGap, match="records 2 to 6") as missing:  # noqa: PT012
        for piece in read(reading, STREAM, lambda _nth, _body: body):
            pieces.append(piece.text)
    assert pieces == ["t0 "]
    assert (missing.value.oldest, missing.value.latest) == (7, 10)


def test_an_accepted_gap_is_filled_from_the_text_so_far() -> None:
    reading = follower(on_gap="accept")
    snapshot = {"branch": 0, "choice": 0, "text": STREAM.text, "finish_reason": "length"}
    body = STREAM.frames()[0].data + gap(2, 9, snapshot) + frames_after(11)
    body = body.replace(b'"latest":10', b'"latest":11')
    assert read_text(reading, STREAM, lambda _nth, _body: body) == STREAM.text
    assert reading.transcript.text() == STREAM.text
    assert reading.transcript.finish_reasons == {(0, 0): "length"}
    assert [(one.first, one.last) for one in reading.transcript.gaps] == [(2, 9)]


def test_a_text_without_its_beginning_fits_what_was_read() -> None:
    reading = follower(on_gap="accept")
    kept = STREAM.text.encode()[2:].decode()
    snapshot = {"branch": 0, "choice": 0, "omitted_bytes": 2, "text": kept}
    body = STREAM.frames()[0].data + gap(2, 6, snapshot) + frames_after(10)
    assert read_text(reading, STREAM, lambda _nth, _body: body) == STREAM.text


def test_an_accepted_gap_without_text_goes_on_at_the_oldest_record() -> None:
    reading = follower(on_gap="accept")
    body = STREAM.frames()[0].data + gap(2, 6) + frames_after(6)
    assert read_text(reading, STREAM, lambda _nth, _body: body) == "t0 t6 t7 t8 t9 "


def test_a_cut_after_a_gap_comes_back_behind_it() -> None:
    reading = follower(on_gap="accept")
    snapshot = {"branch": 0, "choice": 0, "omitted_bytes": 0, "text": STREAM.text}
    first = STREAM.frames()[0].data + gap(2, 6, snapshot)
    text = read_text(reading, STREAM, lambda nth, body: first if nth == 1 else body)
    assert text == STREAM.text
    assert reading.connections == 2


def test_the_text_that_fills_a_gap_moves_the_reader_behind_it() -> None:
    reading = follower(on_gap="accept")
    reading.next_attempt(0.0)
    reading.answered(200, EVENTS)
    snapshot = {"branch": 0, "choice": 0, "omitted_bytes": 0, "text": STREAM.text}
    list(reading.feed(STREAM.frames()[0].data + gap(2, 6, snapshot), 0.0))
    assert reading.last_event_id == "1-10"


def test_snapshots_are_asked_for_by_those_who_accept_gaps() -> None:
    for on_gap, expected in (("raise", None), ("accept", "snapshot")):
        attempt = follower(on_gap=on_gap).next_attempt(0.0)  # type: ignore[arg-type]
        assert attempt is not None
        assert attempt.request.params.get("on_gap") == expected
        assert attempt.request.params["dialect"] == "native"
