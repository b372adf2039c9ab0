"""The client reads what the log and the encoder write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import Encoder, Kind, Log, Reader
from millstream.client import EventId, Follower, IntegrityError, ReconnectPolicy
from millstream.types import Outcome, Settlement
from tests.reference.native import USAGE, completed
from tests.unit.client.reading import AT_ONCE, EVENTS
from tests.unit.client.test_verified import SIZES, TEXTS

STREAM_ID = "s1"
SETTLED = Settlement(charged=8, reserved=20, partial=False, remaining_tokens=None)
TEXT = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=40)


def written(texts: list[str], *, choices: int = 1, max_records: int = 65536) -> Log:
    log = Log(integrity=STREAM_ID.encode(), max_records=max_records)
    for at, text in enumerate(texts):
        log.append(Kind.TOKEN, text, token_count=1, choice=at % choices, time_ns=1)
    for choice in range(choices):
        log.append(Kind.FINISH, "stop", choice=choice, time_ns=1)
    log.append(Kind.USAGE, json.dumps(USAGE, separators=(",", ":")), time_ns=1)
    log.close("completed", SETTLED.to_json(), time_ns=1)
    return log


def body(log: Log, after: int = 0, *, metadata: bool = False) -> bytes:
    encoder = Encoder(
        dialect="native", chunk_id="c", model="m", created=1, epoch=1, integrity=True,
        stream_id=STREAM_ID, retry_ms=1, metadata=metadata,
    )  # fmt: skip
    reader, taken = Reader(log, encoder, after=after), b""
    while not reader.finished:
        taken += reader.take(100)
    return taken


def place(log: Log, last_event_id: str | None) -> int:
    """Where a server goes on."""
    if last_event_id is None:
        return 0
    at = EventId.parse(last_event_id)
    return at.seq if log.crc_at(at.seq) == at.crc else log.last_leaf_before(at.seq)


def follower(policy: ReconnectPolicy = AT_ONCE) -> Follower:
    return Follower(stream_id=STREAM_ID, integrity=True, policy=policy, chance=lambda: 0.0)


def read(reading: Follower, log: Log, cuts: list[int]) -> list[str]:
    """Read the log; each connection is cut after the next number of bytes."""
    pieces: list[str] = []
    remaining = iter(cuts)
    while (attempt := reading.next_attempt(0.0)) is not None:
        answer = body(log, place(log, attempt.request.headers.get("Last-Event-ID")))
        assert reading.answered(200 if answer else 204, EVENTS)
        pieces += [piece.text for piece in reading.feed(answer[: next(remaining, None)], 0.0)]
        reading.cut()
    return pieces


@pytest.mark.parametrize("texts", TEXTS.values(), ids=TEXTS)
def test_what_the_core_writes_passes_all_checks(texts: list[str]) -> None:
    reading = follower()
    assert read(reading, written(texts), []) == texts
    assert reading.transcript.outcome is Outcome.COMPLETED
    assert reading.transcript.checks is not None
    assert reading.transcript.checks.records == len(texts)
    assert (reading.connections, reading.restarts) == (1, 0)


@pytest.mark.parametrize("size", SIZES)
def test_the_core_writes_what_the_specification_says(size: int) -> None:
    texts = [f"t{n} " for n in range(size)]
    frames = b"".join(frame.data for frame in completed(texts, STREAM_ID).frames())
    assert body(written(texts)).replace(b"retry: 1\n", b"") == frames


@given(texts=TEXT, cuts=st.lists(st.integers(0, 2000), max_size=5), choices=st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_any_text_survives_any_cuts(texts: list[str], cuts: list[int], choices: int) -> None:
    reading = follower()
    assert read(reading, written(texts, choices=choices), cuts) == texts
    assert reading.restarts == 0
    joined = {
        (0, choice): "".join(texts[choice::choices]) for choice in range(min(choices, len(texts)))
    }
    assert reading.transcript.texts == joined


@given(texts=TEXT, data=st.data())
@settings(max_examples=150, deadline=None)
def test_one_wrong_byte_of_a_text_is_seen_or_changes_nothing(
    texts: list[str], data: st.DataObject
) -> None:
    log = written(texts)
    right = body(log)
    at = data.draw(st.integers(0, len(right) - 1))
    wrong = bytearray(right)
    wrong[at] ^= data.draw(st.integers(1, 255))
    reading = follower()
    assert reading.next_attempt(0.0) is not None
    reading.answered(200, EVENTS)
    pieces = [piece.text for piece in reading.feed(bytes(wrong), 0.0)]
    reading.cut()

    pieces += read(reading, log, []) if reading.transcript.outcome is None else []

    assert pieces == texts


def test_a_damaged_epoch_hides_nothing_that_comes_after() -> None:
    log = written(["a", "b"])
    reading = follower()
    assert reading.next_attempt(0.0) is not None
    reading.answered(200, EVENTS)
    pieces = [
        piece.text for piece in reading.feed(body(log).replace(b"id: 1-1-", b"id: 3-1-"), 0.0)
    ]
    reading.cut()
    assert [*pieces, *read(reading, log, [])] == ["a", "b"]
    assert reading.transcript.outcome is Outcome.COMPLETED


@given(texts=st.lists(st.text("ab", max_size=3), min_size=1, max_size=20), data=st.data())
@settings(max_examples=100, deadline=None)
def test_damage_that_stays_is_never_given_out(texts: list[str], data: st.DataObject) -> None:
    log = written(texts)
    at = data.draw(st.integers(0, len(texts) - 1))
    forged = written([*texts[:at], texts[at] + "!", *texts[at + 1 :]])
    # The ids are those of the right text, the texts those of another.
    frames = zip(body(log).split(b"\n\n"), body(forged).split(b"\n\n"), strict=True)
    mixed = b"\n\n".join(
        right.partition(b"\nevent")[0] + b"\nevent" + wrong.partition(b"\nevent")[2]
        if b"\nevent: token" in right
        else right
        for right, wrong in frames
    )
    reading = follower()
    pieces: list[str] = []
    with pytest.raises(IntegrityError):  # noqa: PT012 - what came before counts
        while reading.next_attempt(0.0) is not None:
            reading.answered(200, EVENTS)
            pieces += [piece.text for piece in reading.feed(after(mixed, reading), 0.0)]
            reading.cut()
    assert pieces == texts[:at]


def after(frames: bytes, reading: Follower) -> bytes:
    """The frames behind the reader's last leaf."""
    position = reading.connections
    return frames if position == 1 else _behind_leaf(frames, reading)


def _behind_leaf(frames: bytes, reading: Follower) -> bytes:
    events = frames.split(b"\n\n")
    seen = EventId.parse(reading.last_event_id).seq if reading.last_event_id else 0
    leaves = [at for at, event in enumerate(events) if event.startswith(b"event: leaf")]
    good = [at for index, at in enumerate(leaves) if (index + 1) * 8 <= seen]
    return b"\n\n".join(events[good[-1] + 1 if good else 0 :])


@pytest.mark.parametrize("metadata", [False, True])
def test_what_a_stream_was_charged_is_known_if_its_frames_carry_metadata(metadata: bool) -> None:
    reading = follower()
    assert reading.next_attempt(0.0) is not None
    assert reading.answered(200, EVENTS)
    assert [piece.text for piece in reading.feed(body(written(["a"]), metadata=metadata), 0.0)]
    assert reading.next_attempt(0.0) is None
    assert reading.transcript.settled == (SETTLED if metadata else None)
