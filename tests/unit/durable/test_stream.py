from __future__ import annotations

import pytest

from millstream.durable import Append, Appended, Creation, DurableStream, Reason, Refusal
from millstream.durable.producers import FORGET_NS
from tests.unit.durable.making import (
    JSON,
    TEXT,
    appended,
    created,
    mark,
    media_type,
    registry,
    stream,
    text,
)

CLOSE = Append(b"", close=True)


def content(of: DurableStream) -> bytes:
    return of.read(0, 1 << 20).data


def reason(answer: object) -> Reason:
    assert isinstance(answer, Refusal), answer
    return answer.reason


def test_appends_are_read_in_order() -> None:
    made = stream(body=b"one")
    appended(made.append(text(b" two"), 0))

    assert content(made) == b"one two"
    assert made.offset().startswith(f"{7:016d}_")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Append(b"", TEXT), Reason.EMPTY),
        (Append(b"x", None), Reason.NO_CONTENT_TYPE),
        (Append(b"x", JSON), Reason.CONTENT_TYPE),
        (Append(b"x", JSON, close=True), Reason.CONTENT_TYPE),
    ],
)
def test_an_append_that_does_not_fit_changes_nothing(request_: Append, expected: Reason) -> None:
    made = stream()

    assert reason(made.append(request_, 0)) is expected
    assert (content(made), made.closed) == (b"", False)


def test_parameters_of_the_media_type_do_not_matter() -> None:
    appended(stream().append(Append(b"x", media_type("Text/PLAIN; charset=utf-8")), 0))


@pytest.mark.parametrize(
    ("body", "expected"), [(b"[1, 2,", Reason.NOT_JSON), (b"[]", Reason.EMPTY)]
)
def test_a_batch_of_messages_is_taken_whole_or_not_at_all(body: bytes, expected: Reason) -> None:
    made = stream(JSON, b"[0]")

    assert reason(made.append(Append(body, JSON), 0)) is expected
    assert content(made) == b"[0]"
    appended(made.append(Append(b"[1,[2]]", JSON), 0))
    assert content(made) == b"[0,1,[2]]"


def test_a_batch_that_does_not_fit_leaves_no_part_of_it_behind() -> None:
    streams = registry(max_stream_bytes=4096)
    made = created(streams, Creation(JSON))
    used = streams.used_bytes
    batch = b"[" + b",".join([b'"' + b"x" * 1000 + b'"'] * 4) + b"]"

    assert reason(made.append(Append(batch, JSON, close=True, producer=mark(0)), 0)) is (
        Reason.STREAM_FULL
    )

    assert (made.tail, made.closed, streams.used_bytes) == (0, False, used)
    appended(made.append(Append(b"1", JSON, producer=mark(0)), 0))


def test_the_writers_own_sequence_only_rises_and_is_compared_as_text() -> None:
    made = stream()
    appended(made.append(text(b"a", sequence="2"), 0))

    assert reason(made.append(text(b"b", sequence="10"), 0)) is Reason.SEQUENCE
    assert reason(made.append(text(b"b", sequence="2"), 0)) is Reason.SEQUENCE
    appended(made.append(text(b"c"), 0))
    appended(made.append(text(b"d", sequence="3"), 0))
    assert content(made) == b"acd"


def test_closing_is_final_and_may_be_asked_for_again() -> None:
    made = stream()
    appended(made.append(text(b"last", close=True), 0))

    assert made.closed
    assert appended(made.append(CLOSE, 0)).duplicate
    assert reason(made.append(text(b"x"), 0)) is Reason.CLOSED
    assert reason(made.append(text(b"x", close=True), 0)) is Reason.CLOSED
    assert reason(made.append(Append(b"x", JSON), 0)) is Reason.CLOSED
    assert content(made) == b"last"


def test_the_producer_that_closed_may_repeat_itself_and_nobody_else() -> None:
    made = stream()
    appended(made.append(text(b"last", close=True, producer=mark(0)), 0))

    again = appended(made.append(text(b"other", close=True, producer=mark(0)), 0))

    assert again.duplicate
    assert reason(made.append(text(b"x", producer=mark(1)), 0)) is Reason.CLOSED
    assert reason(made.append(text(b"x", producer=mark(0, name="q")), 0)) is Reason.CLOSED
    assert reason(made.append(Append(b"", close=True, producer=mark(1)), 0)) is Reason.CLOSED
    assert content(made) == b"last"


def test_the_producer_that_closed_may_repeat_itself_even_when_it_is_forgotten() -> None:
    made = stream()
    last = text(b"last", close=True, producer=mark(0))
    appended(made.append(last, 0))

    assert appended(made.append(last, 2 * FORGET_NS)) == Appended(True, 0)
    assert made.charged == 1024 + len("a") + len(b"last")


def test_a_producers_duplicate_is_seen_before_its_sequence() -> None:
    made = stream()
    request = text(b"a", sequence="1", producer=mark(0))
    appended(made.append(request, 0))
    appended(made.append(text(b"b", producer=mark(1)), 0))

    again = appended(made.append(request, 0))

    assert (again.duplicate, again.producer_sequence) == (True, 1)
    assert content(made) == b"ab"


def test_a_refused_append_does_not_advance_its_producer() -> None:
    made = stream()
    appended(made.append(text(b"a", sequence="5", producer=mark(0)), 0))
    assert reason(made.append(text(b"b", sequence="4", producer=mark(1)), 0)) is Reason.SEQUENCE

    assert not appended(made.append(text(b"b", sequence="6", producer=mark(1)), 0)).duplicate


def test_producers_count_against_the_streams_bound() -> None:
    made = created(registry(max_stream_bytes=4096), Creation(TEXT))
    answers = [made.append(text(b"x", producer=mark(0, name=f"p{n}")), 0) for n in range(20)]

    refused = [answer for answer in answers if isinstance(answer, Refusal)]

    assert len(refused) >= 8
    assert {answer.reason for answer in refused} == {Reason.STREAM_FULL}
    assert "durable.max_stream_bytes = 4096" in refused[0].message
