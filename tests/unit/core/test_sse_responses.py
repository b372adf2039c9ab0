"""The events of the Responses API as OpenAI's own types and client take them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import openai
import pytest
from openai.types import responses as types
from pydantic import BaseModel, TypeAdapter

from millstream._core import Encoder, SseEvent, SseParser
from millstream.types import Kind, Outcome
from tests.unit.core.test_sse_clients import http_client

Records = list[tuple[int, int, int, int, int, str]]

TEXTS = ["Hel", "lo", ' "w"\n', "漢🦀"]
WHOLE = "".join(TEXTS)
USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 4,
    "total_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
ERROR = {"message": 'gone "x"', "type": "server_error", "param": None, "code": "engine_lost"}
TEMPLATE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 7,
    "model": "m",
    "parallel_tool_calls": False,
    "tool_choice": "auto",
    "tools": [],
    "metadata": {"a": "}"},
    "temperature": 0.5,
}
TYPES: dict[str, type[BaseModel]] = {
    "response.created": types.ResponseCreatedEvent,
    "response.in_progress": types.ResponseInProgressEvent,
    "response.output_item.added": types.ResponseOutputItemAddedEvent,
    "response.content_part.added": types.ResponseContentPartAddedEvent,
    "response.output_text.delta": types.ResponseTextDeltaEvent,
    "response.output_text.done": types.ResponseTextDoneEvent,
    "response.content_part.done": types.ResponseContentPartDoneEvent,
    "response.output_item.done": types.ResponseOutputItemDoneEvent,
    "response.completed": types.ResponseCompletedEvent,
    "response.incomplete": types.ResponseIncompleteEvent,
    "response.failed": types.ResponseFailedEvent,
    "error": types.ResponseErrorEvent,
}
PRELUDE = list(TYPES)[:4]
DONE = list(TYPES)[5:8]


def numbered(pairs: Iterable[tuple[Kind, str]]) -> Records:
    return [(seq, 0, kind, 0, 1, text) for seq, (kind, text) in enumerate(pairs, 1)]


def stream(finish: str = "stop", end: str = "completed") -> Records:
    return numbered(
        [
            *((Kind.TOKEN, text) for text in TEXTS),
            (Kind.FINISH, finish),
            (Kind.USAGE, json.dumps(USAGE)),
            (Kind.END, end),
        ]
    )


def broken(end: str = "engine_lost") -> Records:
    error = (Kind.ERROR, json.dumps(ERROR))
    return numbered([*((Kind.TOKEN, text) for text in TEXTS), error, (Kind.END, end)])


def encoder(**options: Any) -> Encoder:
    names: dict[str, Any] = {"chunk_id": "resp_1", "model": "m", "created": 7}
    template = {"response": json.dumps(TEMPLATE)}
    return Encoder(dialect="responses", **{**names, **template, **options})


def events(records: Records, **options: Any) -> list[SseEvent]:
    return SseParser().feed(encoder(**options).encode(records))


def parsed(event: SseEvent) -> Any:
    """The event by OpenAI's model, which must take every member as it is and know all of them."""
    model = TYPES[event.event]
    value = TypeAdapter(model).validate_json(event.data, strict=True, extra="forbid")
    assert json.loads(event.data)["type"] == event.event
    return value


STREAMS: dict[str, Records] = {
    "whole": stream(),
    "at its length": stream("length", "length"),
    "filtered": stream("content_filter"),
    "broken": broken(),
    "empty": numbered([(Kind.END, "shed")]),
    **{f"ended {outcome}": stream(end=outcome) for outcome in Outcome},
    **{f"cut {outcome}": [*stream()[:2], (3, 0, 5, 0, 0, outcome)] for outcome in Outcome},
}


@pytest.mark.parametrize("template", [True, False], ids=["template", "no template"])
@pytest.mark.parametrize("name", STREAMS)
def test_openais_types_take_every_event_strictly(name: str, template: bool) -> None:
    options = {} if template else {"response": None}
    found = [parsed(event) for event in events(STREAMS[name], **options)]
    assert [event.sequence_number for event in found] == list(range(len(found)))


def test_a_whole_stream_says_it_all() -> None:
    found = events(stream())
    assert [event.event for event in found] == [
        *PRELUDE,
        *["response.output_text.delta"] * 4,
        *DONE,
        "response.completed",
    ]
    values = [parsed(event) for event in found]
    assert [value.delta for value in values[4:8]] == TEXTS
    assert values[8].text == values[9].part.text == values[10].item.content[0].text == WHOLE
    response = values[-1].response
    assert (response.status, response.output_text) == ("completed", WHOLE)
    assert response.output == [values[10].item]
    assert {value.item_id for value in values[3:10]} == {response.output[0].id} == {"msg_1"}


def test_the_response_is_the_template_and_what_changes() -> None:
    found = events(stream())
    created, completed = (json.loads(found[at].data)["response"] for at in (0, -1))
    assert created == {
        **TEMPLATE,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
    }
    assert {name: completed[name] for name in TEMPLATE} == TEMPLATE
    assert completed["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 9,
    }


@pytest.mark.parametrize(
    ("outcome", "event", "status", "item_status"),
    [
        ("completed", "completed", "completed", "completed"),
        ("length", "incomplete", "incomplete", "incomplete"),
        ("cancelled", "incomplete", "cancelled", "incomplete"),
        ("client_gone", "incomplete", "cancelled", "incomplete"),
        *[(str(one), "failed", "failed", "incomplete") for one in list(Outcome)[4:]],
    ],
)
def test_every_outcome_has_its_last_event(
    outcome: str, event: str, status: str, item_status: str
) -> None:
    *_, last = (parsed(one) for one in events(stream(end=outcome)))
    assert last.type == f"response.{event}"
    assert last.response.status == status
    assert last.response.output[0].status == item_status
    reason = last.response.incomplete_details
    assert (reason.reason if reason else None) == (
        "max_output_tokens" if outcome == "length" else None
    )
    assert (last.response.error is not None) == (status == "failed")


def test_an_error_is_an_event_and_the_reason_of_the_failure() -> None:
    *_, error, failed = (parsed(event) for event in events(broken()))
    assert (error.message, error.code, error.param) == (ERROR["message"], ERROR["code"], None)
    assert failed.response.error.message == ERROR["message"]
    assert failed.response.output_text == WHOLE


def test_a_failure_without_an_error_names_its_outcome() -> None:
    *_, failed = (parsed(event) for event in events(stream(end="timeout_idle")))
    assert "timeout_idle" in failed.response.error.message


@pytest.mark.parametrize("name", STREAMS)
def test_events_after_a_number_are_those_of_the_whole_stream(name: str) -> None:
    whole = [(event.event, event.data) for event in events(STREAMS[name])]
    for last in range(len(whole) + 2):
        later = events(STREAMS[name], starting_after=last)
        assert [(event.event, event.data) for event in later] == whole[last + 1 :]


def test_a_reader_that_joins_later_continues_the_numbers() -> None:
    whole = [event.data for event in events(stream())]
    for after in range(1, 6):
        origin = encoder()
        origin.encode(stream()[:after])
        later = SseParser().feed(origin.resumed().encode(stream()[after:]))
        assert [event.data for event in later] == whole[-len(later) :]
        assert len(later) == len(whole) - 4 - min(after, 4) - 3 * (after == 5)


def test_ids_stand_on_the_last_event_of_a_record() -> None:
    frames = encoder(epoch=2, integrity=True, stream_id="s").encode(stream())
    with_id = [frame for frame in frames.split(b"\n\n") if frame.startswith(b"id: 2-")]
    assert [frame.split(b"\n")[1] for frame in with_id] == [
        *[b"event: response.output_text.delta"] * 4,
        b"event: response.output_item.done",
        b"event: response.completed",
    ]
    assert b"crc" not in frames


def test_the_prelude_can_be_had_before_the_first_record() -> None:
    one, other = encoder(retry_ms=5), encoder(retry_ms=5)
    prelude = one.prelude()
    found = SseParser().feed(prelude)
    assert [event.event for event in found] == PRELUDE
    assert [event.retry for event in found] == [5, None, None, None]
    assert one.prelude() == b""
    assert prelude + one.encode(stream()) == other.encode(stream())
    assert encoder().resumed().prelude() == b""
    plain = Encoder(dialect="chat", chunk_id="c", model="m", created=0, retry_ms=5)
    assert plain.prelude() == b""


def test_ndjson_is_the_data_alone() -> None:
    lines = encoder(framing="ndjson", epoch=2, retry_ms=5).encode(stream())
    assert lines.decode().splitlines() == [event.data for event in events(stream())]


def test_metadata_stands_beside_what_openai_knows_in_every_event_of_a_record() -> None:
    plain, marked = events(stream()), events(stream(), metadata=True)
    members = [json.loads(event.data).pop("stream", None) for event in marked]
    # The prelude stands before the first record; a usage record has no event of its own.
    assert [one and one["seq"] for one in members] == [None] * 4 + [1, 2, 3, 4, 5, 5, 5, 7]
    assert members[4] == {
        "seq": 1,
        "ts": "1970-01-01T00:00:00.000000Z",
        "model_id": "m",
        "chunk_id": "resp_1-1",
        "token_count": 1,
    }
    stripped = [
        {name: value for name, value in json.loads(event.data).items() if name != "stream"}
        for event in marked
    ]
    assert stripped == [json.loads(event.data) for event in plain]
    for event in marked:
        TypeAdapter(TYPES[event.event]).validate_json(event.data, strict=True)


@pytest.mark.parametrize("framing", ["sse", "ndjson"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_reader_that_counts_from_the_start_goes_on_with_the_same_bytes(
    name: str, framing: str
) -> None:
    records = STREAMS[name]
    options: dict[str, Any] = {"framing": framing, "metadata": True, "epoch": 1}
    whole = encoder(**options).encode(records)
    for after in range(1, len(records)):
        seen = encoder(**options).encode(records[:after])
        later = encoder(**options, after_seq=after)
        assert later.prelude() == b""
        assert seen + later.encode(records) == whole


@pytest.mark.parametrize("template", ["[]", "", "{", "1"])
def test_a_response_that_is_no_object_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="must be a JSON object"):
        encoder(response=template)


@pytest.mark.parametrize("metadata", [False, True])
@pytest.mark.parametrize("epoch", [None, 2])
def test_openai_streams_a_response(epoch: int | None, metadata: bool) -> None:
    body = encoder(epoch=epoch, retry_ms=5, metadata=metadata).encode(stream())
    with (
        openai.OpenAI(
            api_key="k", base_url="http://test/v1", http_client=http_client(body), max_retries=0
        ) as client,
        client.responses.stream(model="m", input="hi") as source,
    ):
        deltas = [one.delta for one in source if one.type == "response.output_text.delta"]
        response = source.get_final_response()
    assert deltas == TEXTS
    assert (response.output_text, response.status) == (WHOLE, "completed")
    assert response.usage is not None
    assert response.usage.total_tokens == 9


def test_openai_sees_the_error_of_a_broken_response() -> None:
    body = encoder().encode(broken())
    with openai.OpenAI(
        api_key="k", base_url="http://test/v1", http_client=http_client(body), max_retries=0
    ) as client:
        source = client.responses.create(model="m", input="hi", stream=True)
        *_, error, failed = source
    assert isinstance(error, types.ResponseErrorEvent)
    assert isinstance(failed, types.ResponseFailedEvent)
