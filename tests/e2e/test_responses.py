"""``/v1/responses`` as openai-python and a strict reader of its types see it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response

from tests.e2e.http1 import Connection
from tests.e2e.servers import MODEL, Server
from tests.unit.api.responses.strictly import as_event, as_response
from tests.waiting import until

RESPONSES = "/v1/responses"
QUESTION = "What is the capital of France?"
ASKED: dict[str, Any] = {
    "model": MODEL,
    "input": QUESTION,
    "temperature": 0,
    "max_output_tokens": 24,
}
ENDLESS: dict[str, Any] = {
    **ASKED,
    "max_output_tokens": 1500,
    "extra_body": {"ignore_eos": True},
}
# What a plain HTTP client sends for the same.
ENDLESS_BODY: dict[str, Any] = {**ASKED, "max_output_tokens": 1500, "ignore_eos": True}
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}


@pytest.fixture
def client(idle: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{idle.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(idle: Server) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{idle.url}/v1", api_key="none", max_retries=0
    ) as client:
        yield client


def frames(lines: Iterable[str]) -> Iterator[Any]:
    """The events of a stream, each judged by its type, and named alike outside and inside."""
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            event = as_event(value)
            assert event.type == name
            yield event


def streamed(server: Server, body: dict[str, Any]) -> list[Any]:
    """All events of a new response."""
    with httpx.stream("POST", f"{server.url}{RESPONSES}", json=body, timeout=60) as answer:
        assert answer.status_code == 200, answer.read()
        return list(frames(answer.iter_lines()))


def read_again(server: Server, response_id: str, **query: object) -> list[Any]:
    """All events of a response that is kept."""
    with httpx.stream(
        "GET",
        f"{server.url}{RESPONSES}/{response_id}",
        params={"stream": "true", **query},  # type: ignore[dict-item]
        timeout=60,
    ) as answer:
        assert answer.status_code == 200, answer.read()
        return list(frames(answer.iter_lines()))


def text_of(events: Iterable[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def numbers(events: Iterable[Any]) -> list[int]:
    return [event.sequence_number for event in events]


# --- whole and streamed -----------------------------------------------------------------------


def test_a_whole_response_is_true_and_counted(client: openai.OpenAI) -> None:
    raw = client.responses.with_raw_response.create(**ASKED, metadata={"topic": "geography"})
    response = as_response(raw.content)
    assert "Paris" in response.output_text
    assert response.status in ("completed", "incomplete")
    assert response.metadata == {"topic": "geography"}
    assert response.usage is not None
    assert response.usage.output_tokens > 0
    assert client.responses.retrieve(response.id).to_dict() == response.to_dict()


def test_every_event_of_a_stream_is_of_its_type_and_in_its_place(
    client: openai.OpenAI, idle: Server
) -> None:
    events = streamed(idle, {**ASKED, "stream": True})
    assert numbers(events) == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert kinds[-4:-1] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]
    assert kinds[-1] in TERMINAL
    last: Response = events[-1].response
    assert last.output_text == text_of(events) == events[-4].text
    assert "Paris" in last.output_text
    assert client.responses.retrieve(last.id).to_dict() == last.to_dict()
    whole = client.responses.create(**ASKED)
    assert whole.output_text == last.output_text
    assert whole.usage == last.usage


def test_a_response_that_reaches_its_bound_is_incomplete(
    client: openai.OpenAI, idle: Server
) -> None:
    events = streamed(idle, {**ASKED, "max_output_tokens": 4, "stream": True})
    assert events[-1].type == "response.incomplete"
    response = client.responses.create(**{**ASKED, "max_output_tokens": 4})
    assert response.status == events[-1].response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage is not None
    assert response.usage.output_tokens == 4


def test_the_client_s_own_stream_helper_gets_to_the_final_response(client: openai.OpenAI) -> None:
    asked = {**ASKED, "max_output_tokens": 200}
    with client.responses.stream(**asked) as stream:
        snapshot = ""
        for event in stream:
            if event.type == "response.output_text.delta":
                snapshot = event.snapshot
        final = stream.get_final_response()
    assert final.output_text == snapshot
    assert final.status == "completed"
    with client.responses.stream(response_id=final.id, starting_after=5) as again:
        events = list(again)
    assert events[0].sequence_number == 6
    assert again.get_final_response().output_text == final.output_text


def test_a_conversation_with_instructions_is_understood(client: openai.OpenAI) -> None:
    first = client.responses.create(**ASKED, instructions="You are a teacher of geography.")
    second = client.responses.create(
        model=MODEL,
        temperature=0,
        max_output_tokens=16,
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
            first.output[0].to_dict(),
            {"role": "user", "content": "Name it again."},
        ],
    )
    assert second.usage is not None
    assert first.usage is not None
    assert second.usage.input_tokens > first.usage.total_tokens - 30
    assert second.output_text


async def test_the_async_client_streams_and_retrieves(async_client: openai.AsyncOpenAI) -> None:
    stream = await async_client.responses.create(**ASKED, stream=True)
    events = [event async for event in stream]
    assert "Paris" in text_of(events)
    last = events[-1]
    assert last.type in TERMINAL
    again = await async_client.responses.retrieve(last.response.id)
    assert again.output_text == text_of(events)


# --- in the background ------------------------------------------------------------------------


def until_ended(client: openai.OpenAI, response_id: str) -> Response:
    """The response, once it has ended."""

    def ended() -> bool:
        return client.responses.retrieve(response_id).status not in ("queued", "in_progress")

    until(ended, what="the response has ended")
    return as_response(client.responses.with_raw_response.retrieve(response_id).content)


def test_a_background_response_needs_nobody_to_wait(client: openai.OpenAI) -> None:
    response = client.responses.create(**ASKED, background=True)
    assert response.status in ("queued", "in_progress")
    assert response.background is True
    ended = until_ended(client, response.id)
    assert ended.status in ("completed", "incomplete")
    assert ended.output_text == client.responses.create(**ASKED).output_text


def test_a_background_stream_goes_on_when_its_reader_leaves_and_is_resumed(
    client: openai.OpenAI,
) -> None:
    seen: list[Any] = []
    response_id = ""
    stream = client.responses.create(**ASKED, background=True, stream=True)
    for event in stream:
        seen.append(event)
        if event.type == "response.created":
            response_id = event.response.id
        if event.type == "response.output_text.delta":
            break
    stream.close()
    rest = client.responses.retrieve(
        response_id, stream=True, starting_after=seen[-1].sequence_number
    )
    events = [*seen, *rest]
    assert numbers(events) == list(range(len(events)))
    assert events[-1].type in TERMINAL
    assert events[-1].response.output_text == text_of(events)


def test_a_finished_response_can_be_read_from_every_event_on(idle: Server) -> None:
    # vercel/resumable-stream#44: whoever comes just after the end gets nothing.
    events = streamed(idle, {**ASKED, "background": True, "stream": True})
    response_id = events[0].response.id
    assert read_again(idle, response_id) == events
    for number in range(len(events)):
        rest = read_again(idle, response_id, starting_after=number)
        assert rest == events[number + 1 :], number


def test_several_readers_of_a_background_response_see_the_same(idle: Server) -> None:
    body = {**ASKED, "background": True, "stream": True}
    with httpx.stream("POST", f"{idle.url}{RESPONSES}", json=body, timeout=60) as first:
        events = frames(first.iter_lines())
        created = next(events)
        second = read_again(idle, created.response.id)
        assert [created, *events] == second


# --- cancelling -------------------------------------------------------------------------------


def test_an_instant_abort_does_not_leave_a_response_queued(
    client: openai.OpenAI, idle: Server
) -> None:
    # community.openai.com topic 1382584: cancelled at once, "queued" for ever.
    response = client.responses.create(**ENDLESS, background=True)
    cancelled = client.responses.cancel(response.id)
    assert cancelled.status == "cancelled"
    assert client.responses.retrieve(response.id).status == "cancelled"
    assert client.responses.cancel(response.id).to_dict() == cancelled.to_dict()
    until(lambda: idle.metric("millstream_engine_batch_size") == 0, what="engine idle")


def test_cancelling_ends_what_others_read(client: openai.OpenAI, idle: Server) -> None:
    # vLLM: only response.completed ended its waiting readers.
    body = {**ENDLESS_BODY, "background": True, "stream": True}
    with httpx.stream("POST", f"{idle.url}{RESPONSES}", json=body, timeout=60) as answer:
        events = frames(answer.iter_lines())
        created = next(events)
        for event in events:
            if event.type == "response.output_text.delta":
                break
        assert client.responses.cancel(created.response.id).status == "cancelled"
        *_, last = events
    assert last.type in TERMINAL
    assert last.response.status == "cancelled"
    kept = client.responses.retrieve(created.response.id)
    assert kept.to_dict() == last.response.to_dict()
    assert kept.output_text


def test_cancelling_what_has_ended_changes_nothing(client: openai.OpenAI) -> None:
    response = client.responses.create(**ASKED, background=True)
    ended = until_ended(client, response.id)
    assert client.responses.cancel(response.id).to_dict() == ended.to_dict()


@pytest.mark.parametrize("stream", [True, False])
def test_a_closed_connection_reaches_the_engine(idle: Server, stream: bool) -> None:
    # BerriAI/litellm#36123: closing /v1/responses left the upstream running.
    with Connection(idle.port) as client:
        client.post(RESPONSES, {**ENDLESS_BODY, "stream": stream})
        until(lambda: idle.metric("millstream_engine_batch_size") == 1, what="engine works")
        if stream:
            client.read_until(b"response.output_text.delta")
    until(lambda: idle.metric("millstream_engine_batch_size") == 0, what="engine idle")


def test_a_response_whose_client_left_can_be_seen_as_cancelled(
    client: openai.OpenAI, idle: Server
) -> None:
    stream = client.responses.create(**ENDLESS, stream=True)
    created = next(iter(stream))
    assert created.type == "response.created"
    stream.close()
    assert until_ended(client, created.response.id).status == "cancelled"


def test_a_failed_run_ends_its_readers_and_says_why(client: openai.OpenAI, idle: Server) -> None:
    # vLLM: a run that failed left its readers waiting.
    body = {**ENDLESS_BODY, "model": "hasty", "background": True, "stream": True}
    events = streamed(idle, body)
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    failed = events[-1].response
    assert failed.status == "failed"
    assert failed.error.code == "server_error"
    assert client.responses.retrieve(failed.id).to_dict() == failed.to_dict()
    again = read_again(idle, failed.id, starting_after=events[-2].sequence_number)
    assert [event.type for event in again] == ["response.failed"]


def test_a_failed_run_is_an_error_to_who_waits_for_the_whole(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as error:
        client.responses.create(**{**ENDLESS, "model": "hasty"})
    assert error.value.code == "timeout_total"


# --- what is not there ------------------------------------------------------------------------


def test_a_deleted_response_is_gone(client: openai.OpenAI) -> None:
    response = client.responses.create(**ASKED)
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(response.id)


def test_deleting_a_response_under_way_stops_it(client: openai.OpenAI, idle: Server) -> None:
    response = client.responses.create(**ENDLESS, background=True)
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    until(lambda: idle.metric("millstream_engine_batch_size") == 0, what="engine idle")


def test_a_response_that_is_not_stored_is_not_found(client: openai.OpenAI) -> None:
    response = client.responses.create(**ASKED, store=False)
    assert response.output_text
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


@pytest.mark.parametrize("response_id", ["resp_nothing", "nothing", "msg_nothing"])
def test_an_unknown_response_is_not_found(client: openai.OpenAI, response_id: str) -> None:
    for call in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
        with pytest.raises(openai.NotFoundError) as error:
            call(response_id)
        assert error.value.code == "response_not_found"
        assert response_id in error.value.message


def test_a_stream_of_another_route_is_no_response(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=4,
        stream=True,
        extra_body={"stream_options": {"resumable": True}},
    )
    for _ in raw.parse():
        pass
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(f"resp_{raw.headers['x-stream-id']}")


@pytest.mark.parametrize(
    ("asks", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True, "store": False}, "background"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ],
)
def test_what_is_not_served_is_refused_by_name(
    client: openai.OpenAI, asks: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(**{**ASKED, **asks})
    assert error.value.param == param
