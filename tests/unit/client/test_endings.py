"""How a read ends, and what several branches say."""

from __future__ import annotations

import json

import pytest

from millstream.client import (
    EventId,
    Follower,
    IntegrityError,
    Piece,
    StreamFailed,
)
from millstream.types import Kind, Outcome, Usage
from tests.reference.native import NativeStream, completed, frame
from tests.unit.client.reading import AT_ONCE, EVENTS, answer, follower, read, read_text

STREAM = completed([f"t{n} " for n in range(10)])
BODY = b"".join(one.data for one in STREAM.frames())


def ended(*records: tuple[Kind, str]) -> NativeStream:
    stream = NativeStream("s1")
    for kind, text in records:
        stream.add(kind, text)
    return stream


ERROR = {"message": "the engine is gone", "type": "server_error", "param": None, "code": "lost"}


@pytest.mark.parametrize(
    "outcome", sorted(set(Outcome) - {Outcome.COMPLETED, Outcome.LENGTH}), ids=str
)
def test_a_failing_outcome_is_raised_after_what_came(outcome: Outcome) -> None:
    stream = ended((Kind.TOKEN, "half"), (Kind.ERROR, json.dumps(ERROR)), (Kind.END, outcome))
    reading, pieces = follower(), list[str]()
    with pytest.raises(StreamFailed, match=f"{outcome}: the engine is gone") as failed:  # noqa: PT012
        for piece in read(reading, stream):
            pieces.append(piece.text)
    assert pieces == ["half"]
    assert failed.value.outcome is outcome
    assert failed.value.error is not None
    assert failed.value.error.code == "lost"


def test_an_error_of_the_connection_is_no_error_of_the_stream() -> None:
    reading = follower()
    frames = [one.data for one in STREAM.frames()]
    cut = b"".join([*frames[:2], frame("error", {"error": ERROR})])
    assert read_text(reading, STREAM, lambda nth, body: cut if nth == 1 else body) == STREAM.text
    assert reading.transcript.error is None
    assert (reading.connections, reading.restarts) == (2, 0)


def test_the_readers_own_cancel_is_no_failure() -> None:
    reading = follower()
    reading.cancelling = True
    assert read_text(reading, ended((Kind.TOKEN, "half"), (Kind.END, "cancelled"))) == "half"
    assert reading.transcript.outcome is Outcome.CANCELLED


def test_length_is_a_good_end() -> None:
    stream = ended((Kind.TOKEN, "half"), (Kind.FINISH, "length"), (Kind.END, "length"))
    reading = follower()
    assert read_text(reading, stream) == "half"
    assert reading.transcript.finish_reasons == {(0, 0): "length"}


def test_a_hand_over_is_followed_after_its_wait() -> None:
    stream = ended(
        (Kind.TOKEN, "half"),
        (Kind.HANDOVER, json.dumps({"stream_id": "s1", "retry_ms": 1500})),
        (Kind.END, "shed"),
    )
    reading = follower()
    assert reading.next_attempt(0.0) is not None
    reading.answered(200, EVENTS)
    assert [one.text for one in reading.feed(answer(stream, None), 0.0)] == ["half"]
    assert not reading.reading
    reading.cut()
    second = reading.next_attempt(0.0)
    assert second is not None
    assert second.delay_seconds == 1.5
    assert second.request.headers["Last-Event-ID"] == stream.id(2)
    reading.answered(200, EVENTS)
    list(reading.feed(answer(stream, stream.id(2)), 0.0))
    with pytest.raises(StreamFailed, match="shed"):
        reading.next_attempt(0.0)


def test_a_producer_that_died_is_followed_into_the_next_epoch() -> None:
    stream = ended((Kind.TOKEN, "half"))
    stream.epoch = 2
    stream.add(Kind.ERROR, json.dumps(ERROR))
    stream.add(Kind.END, "engine_lost")
    with pytest.raises(StreamFailed, match="engine_lost"):
        read_text(follower(), stream)


def test_a_stream_that_was_read_to_its_end_has_nothing_more() -> None:
    reading = follower(after=STREAM.id(len(STREAM.records)))
    assert read_text(reading, STREAM) == ""
    assert reading.transcript.outcome is None


def test_nothing_more_before_the_end_came_is_not_an_end() -> None:
    reading = follower()
    bodies = iter([b"".join(one.data for one in STREAM.frames()[:5]), b"", b"", b""])
    with pytest.raises(IntegrityError, match="the end did not come"):  # noqa: PT012
        while reading.next_attempt(0.0) is not None:
            body = next(bodies)
            if reading.answered(200 if body else 204, EVENTS):
                list(reading.feed(body, 0.0))
                reading.cut()


def test_choices_and_branches_are_kept_apart() -> None:
    reading = Follower(stream_id="s1")
    reading.next_attempt(0.0)
    reading.answered(200, EVENTS)
    said: list[tuple[str, dict[str, object]]] = [
        ("token", {"branch": 0, "model": "m", "choice": 0, "text": "a", "tokens": 1}),
        ("token", {"branch": 1, "model": "n", "choice": 1, "text": "b", "tokens": 2}),
        ("token", {"branch": 0, "model": "m", "choice": 0, "text": "c", "tokens": 1}),
        ("finish", {"branch": 1, "choice": 1, "finish_reason": "length"}),
        ("usage", {"branch": 0, "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
        ("usage", {"branch": 1, "usage": {"prompt_tokens": 3, "completion_tokens": 4}}),
        ("branch_done", {"branch": 1, "outcome": "length"}),
        ("done", {"outcome": "length"}),
    ]
    body = b"".join(
        frame(name, value, event_id=f"1-{n}") for n, (name, value) in enumerate(said, 1)
    )

    pieces = list(reading.feed(body, 0.0))

    assert pieces == [Piece("a", 1), Piece("b", 2, 1, 1), Piece("c", 1)]
    transcript = reading.transcript
    assert transcript.texts == {(0, 0): "ac", (1, 1): "b"}
    assert transcript.finish_reasons == {(1, 1): "length"}
    assert transcript.usage == Usage(4, 6)
    assert transcript.outcomes == {1: Outcome.LENGTH}
    assert reading.next_attempt(0.0) is None


def test_a_stream_without_checksums_goes_on_at_the_last_record() -> None:
    stream = completed(["a", "b", "c"], integrity=False)
    reading = Follower(stream_id="s1", policy=AT_ONCE)
    frames = [one.data for one in stream.frames()]
    doubled = b"".join([*frames[:2], *frames[1:]])
    assert reading.next_attempt(0.0) is not None
    reading.answered(200, EVENTS)
    list(reading.feed(doubled, 0.0))
    assert reading.restarts == 1
    reading.cut()
    attempt = reading.next_attempt(0.0)
    assert attempt is not None
    assert EventId.parse(attempt.request.headers["Last-Event-ID"]) == EventId(1, 2)
