"""Reads that are cut, joined in the middle, and given up."""

from __future__ import annotations

from functools import partial

import pytest

from millstream.client import (
    ConnectionLost,
    DeadlineExceeded,
    Follower,
    IntegrityError,
    ReconnectPolicy,
)
from millstream.types import Kind, Outcome
from tests.reference.native import completed, frame
from tests.unit.client.reading import EVENTS, follower, read, read_text

STREAM = completed([f"t{n} " for n in range(10)])
BODY = b"".join(one.data for one in STREAM.frames())
LONGEST = max(len(one.data) for one in STREAM.frames())


def cut_first(kept: int, connection: int, body: bytes) -> bytes:
    return body[:kept] if connection == 1 else body


def test_a_connection_may_be_cut_after_any_byte() -> None:
    for kept in range(len(BODY)):
        reading = follower()
        text = read_text(reading, STREAM, partial(cut_first, kept))
        assert text == STREAM.text == reading.transcript.text(), kept
        assert reading.transcript.outcome is Outcome.COMPLETED
        assert (reading.connections, reading.restarts) == (2, 0)


@pytest.mark.parametrize("most", [LONGEST, LONGEST + 1, LONGEST + 17, 2 * LONGEST])
def test_every_connection_may_be_cut_as_long_as_each_brings_an_event(most: int) -> None:
    reading = follower()
    assert read_text(reading, STREAM, lambda _nth, body: body[:most]) == STREAM.text
    assert reading.connections > 2


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_bytes_may_come_in_pieces_of_any_size(size: int) -> None:
    reading = follower()
    assert reading.next_attempt(0.0) is not None
    reading.answered(200, EVENTS)
    pieces = [
        piece
        for at in range(0, len(BODY), size)
        for piece in reading.feed(BODY[at : at + size], 0.0)
    ]
    assert "".join(piece.text for piece in pieces) == STREAM.text
    assert reading.next_attempt(0.0) is None


def test_what_was_not_iterated_has_not_been_read() -> None:
    reading = follower()
    pieces = iter(read(reading, STREAM))
    assert [next(pieces).text, next(pieces).text] == ["t0 ", "t1 "]
    assert reading.last_event_id == STREAM.id(2)
    assert reading.transcript.text() == "t0 t1 "


def test_comments_and_events_of_a_later_server_are_ignored() -> None:
    reading = follower()
    noise = b":\n" + frame("weather", {"rain": True})
    frames = [noise + one.data for one in STREAM.frames()]
    assert read_text(reading, STREAM, lambda _nth, _body: b"".join(frames)) == STREAM.text


def test_attempts_that_bring_nothing_are_bounded() -> None:
    reading = follower(policy=ReconnectPolicy(base_seconds=0.0, max_attempts=3))
    error = OSError("connection refused")
    for _ in range(3):
        assert reading.next_attempt(0.0) is not None
        reading.cut(error)
    with pytest.raises(ConnectionLost, match=r"3 attempts.*connection refused") as lost:
        reading.next_attempt(0.0)
    assert lost.value.__cause__ is error


def test_a_new_record_lets_the_attempts_count_anew() -> None:
    reading = follower(policy=ReconnectPolicy(base_seconds=0.0, max_attempts=2))
    cuts = iter([0, LONGEST] * 20)
    assert read_text(reading, STREAM, lambda _nth, body: body[: next(cuts)]) == STREAM.text


def test_after_a_new_record_the_attempts_are_bounded_as_before() -> None:
    reading = follower(policy=ReconnectPolicy(base_seconds=0.0, max_attempts=2))
    cuts = iter([LONGEST, 0, 0])
    with pytest.raises(ConnectionLost, match="2 attempts"):
        read_text(reading, STREAM, lambda _nth, body: body[: next(cuts)])


def test_waits_grow_to_the_cap_and_are_jittered() -> None:
    policy = ReconnectPolicy(base_seconds=0.5, cap_seconds=3.0, max_attempts=9)
    for chance in (0.0, 0.5, 1.0):
        reading = Follower(stream_id="s1", policy=policy, chance=partial(float, chance))
        delays = []
        for _ in range(5):
            attempt = reading.next_attempt(0.0)
            assert attempt is not None
            delays.append(attempt.delay_seconds)
            reading.cut(OSError())
        assert delays == [0.0, *(chance * window for window in (1.0, 2.0, 3.0, 3.0))]


def test_the_servers_retry_comes_before_the_jitter() -> None:
    policy = ReconnectPolicy(base_seconds=0.5)
    reading = Follower(stream_id="s1", policy=policy, chance=lambda: 1.0)
    assert reading.next_attempt(0.0) is not None
    reading.answered(200, EVENTS)
    list(reading.feed(b"retry: 2500\n" + STREAM.frames()[0].data, 0.0))
    reading.cut()
    attempt = reading.next_attempt(0.0)
    assert attempt is not None
    assert attempt.delay_seconds == 2.5 + 0.5


def test_waits_stay_finite_however_many_there_are() -> None:
    reading = follower(policy=ReconnectPolicy(base_seconds=1.0, max_attempts=5000))
    for _ in range(2000):
        reading.next_attempt(0.0)
        reading.cut(OSError())
    attempt = reading.next_attempt(0.0)
    assert attempt is not None
    assert attempt.delay_seconds == 0.0


def after_retry(milliseconds: int, policy: ReconnectPolicy) -> Follower:
    reading = follower(policy=policy)
    reading.next_attempt(0.0)
    reading.answered(200, EVENTS)
    list(reading.feed(f"retry: {milliseconds}\n".encode() + STREAM.frames()[0].data, 0.0))
    reading.cut()
    return reading


def test_the_servers_retry_is_taken_with_reason() -> None:
    attempt = after_retry(86_400_000, ReconnectPolicy(longest_wait_seconds=7.0)).next_attempt(0.0)
    assert attempt is not None
    assert attempt.delay_seconds == 7.0


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    reading = after_retry(2000, ReconnectPolicy(deadline_seconds=10.0))
    with pytest.raises(DeadlineExceeded):
        reading.next_attempt(9.0)


def test_a_deadline_bounds_the_whole_read() -> None:
    reading = follower(policy=ReconnectPolicy(base_seconds=0.0, deadline_seconds=10.0))
    first = reading.next_attempt(100.0)
    assert first is not None
    assert first.timeout_seconds == 10.0
    reading.cut(OSError())
    second = reading.next_attempt(107.0)
    assert second is not None
    assert second.timeout_seconds == 3.0
    reading.answered(200, EVENTS)
    assert [one.text for one in reading.feed(STREAM.frames()[0].data, 109.0)] == ["t0 "]
    # Comments keep a connection alive, not a read.
    assert list(reading.feed(b":\n", 110.0)) == []
    assert not reading.reading
    with pytest.raises(DeadlineExceeded, match="10 s"):
        reading.next_attempt(110.0)


@pytest.mark.parametrize("seq", range(1, len(STREAM.records)))
def test_a_reader_may_join_after_any_event(seq: int) -> None:
    reading = follower(after=STREAM.id(seq))
    expected = "".join(one.text for one in STREAM.records[seq:] if one.kind == Kind.TOKEN)
    assert read_text(reading, STREAM) == expected
    assert reading.restarts == 0


def test_who_joins_with_another_text_is_told() -> None:
    other = completed(["u"] * 10)
    with pytest.raises(IntegrityError):
        read_text(follower(after=other.id(9)), STREAM)


def test_who_joins_sees_damage_too() -> None:
    reading = follower(after=STREAM.id(2), policy=ReconnectPolicy(max_restarts=0))
    with pytest.raises(IntegrityError):
        read_text(reading, STREAM, lambda _nth, body: body.replace(b"t7", b"t8"))
