"""The events of a response: openai-python's types judge each, the object agrees with the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from millstream._core import Log
from millstream.api.responses.objects import response_object
from millstream.streams.reading import Ready, reader_for
from millstream.types import Failure, Outcome
from tests.unit.api.responses.recordings import ended, recording, written
from tests.unit.api.responses.strictly import as_event

BROKEN = Failure("The engine broke.", "server_error", "engine_error")
REFUSED = Failure("Too long.", "invalid_request_error", "context_length_exceeded")
WHOLE = {Outcome.COMPLETED, Outcome.LENGTH}
LEFT = {Outcome.CANCELLED, Outcome.CLIENT_GONE}
TYPES = {
    Outcome.COMPLETED: "response.completed",
    Outcome.LENGTH: "response.incomplete",
    Outcome.CANCELLED: "response.incomplete",
    Outcome.CLIENT_GONE: "response.incomplete",
}


def _lives() -> Iterator[Any]:
    """Every way for a stream to end, with and without a text before it."""
    for texts in ((), ("Hi",), ("Hi", ' "there"\n', "é")):
        for outcome in Outcome:
            errors = (None,) if outcome in WHOLE | LEFT else (BROKEN, REFUSED)
            for error in errors:
                name = "-".join((outcome, error.code if error else "", str(len(texts))))
                yield pytest.param(texts, outcome, error, id=name)


LIVES = list(_lives())


def events(log: Log, starting_after: int | None = None, **members: object) -> list[Any]:
    """What a reader is sent, each event judged by its type."""
    ready = reader_for(recording(log, **members), None, starting_after=starting_after)
    assert isinstance(ready, Ready)
    body = bytearray(ready.preface)
    while chunk := ready.reader.take(1 << 20):
        body += chunk
    found = []
    for frame in body.decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        event = as_event(data.removeprefix("data: "))
        assert name == f"event: {event.type}"
        found.append(event)
    return found


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize(("texts", "outcome", "error"), LIVES)
def test_the_last_event_says_what_the_object_says(
    texts: tuple[str, ...], outcome: Outcome, error: Failure | None, background: bool
) -> None:
    log = ended(written(*texts), outcome, error)
    *_, last = events(log, background=background)
    assert last.type == TYPES.get(outcome, "response.failed")
    shown = response_object(recording(log, background=background))
    assert msgspec.json.decode(last.response.to_json()) == shown


@pytest.mark.parametrize(("texts", "outcome", "error"), LIVES)
def test_events_are_numbered_and_can_be_had_from_each_on(
    texts: tuple[str, ...], outcome: Outcome, error: Failure | None
) -> None:
    log = ended(written(*texts), outcome, error)
    all_events = events(log)
    numbers = [event.sequence_number for event in all_events]
    assert numbers == sorted(set(numbers))
    assert numbers[:4] == [0, 1, 2, 3]
    for index, number in enumerate(numbers):
        assert events(log, starting_after=number) == all_events[index + 1 :]


@pytest.mark.parametrize(("texts", "outcome", "error"), LIVES)
def test_the_deltas_are_the_text(
    texts: tuple[str, ...], outcome: Outcome, error: Failure | None
) -> None:
    found = events(ended(written(*texts), outcome, error))
    deltas = [event.delta for event in found if event.type == "response.output_text.delta"]
    assert deltas == list(texts)


def test_a_response_under_way_has_begun_and_not_ended() -> None:
    kinds = [event.type for event in events(written("Hi"))]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
    ]


def test_a_response_that_is_over_is_seen_as_over_by_who_has_all_of_it() -> None:
    log = ended(written("Hi"), Outcome.COMPLETED)
    last = events(log)[-1].sequence_number
    assert events(log, starting_after=last) == []
