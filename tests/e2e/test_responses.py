"""``/v1/responses``, whole and streamed, as openai-python sees it."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent

from tests.e2e.responses import ASKED, ENDLESS, QUESTION, TERMINAL, numbers, streamed, text_of
from tests.e2e.servers import MODEL, Server
from tests.unit.api.responses.strictly import as_response
from tests.waiting import until


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


def test_the_last_event_says_what_was_charged_wherever_it_is_read(client: openai.OpenAI) -> None:
    raw = client.responses.with_raw_response.create(
        **ASKED,
        stream=True,
        extra_body={"stream_options": {"include_metadata": True, "resumable": True}},
    )
    *_, last = raw.parse()
    usage = last.response.usage
    assert usage is not None
    settled = last.model_extra["stream"]["settled"]
    assert settled["charged"] == usage.total_tokens <= settled["reserved"]
    assert not settled["partial"]
    *_, again = client.responses.retrieve(last.response.id, stream=True)
    assert again.to_dict() == last.to_dict()
    any_event: Any = ResponseStreamEvent
    (resumed,) = client.get(
        f"/streams/{raw.headers['x-stream-id']}",
        cast_to=any_event,
        options={"params": {"after": last.model_extra["stream"]["seq"] - 1}},
        stream=True,
        stream_cls=openai.Stream[ResponseStreamEvent],
    )
    assert resumed.to_dict() == last.to_dict()


def test_a_cancelled_stream_says_what_it_paid(client: openai.OpenAI) -> None:
    stream = client.responses.create(
        **{**ENDLESS, "extra_body": {"ignore_eos": True}},
        background=True,
        stream=True,
        extra_headers={"X-Stream-Metadata": "1"},
    )
    seen: list[Any] = []
    for event in stream:
        seen.append(event)
        if event.type == "response.output_text.delta" and len(seen) < 8:
            client.responses.cancel(seen[0].response.id)
    emitted = sum(
        event.model_extra["stream"]["token_count"]
        for event in seen
        if event.type == "response.output_text.delta"
    )
    assert seen[-1].response.status == "cancelled"
    settled = seen[-1].model_extra["stream"]["settled"]
    assert settled["partial"]
    assert emitted < settled["charged"] < settled["reserved"]


async def test_the_async_client_streams_and_retrieves(async_client: openai.AsyncOpenAI) -> None:
    stream = await async_client.responses.create(**ASKED, stream=True)
    events = [event async for event in stream]
    assert "Paris" in text_of(events)
    last = events[-1]
    assert last.type in TERMINAL
    again = await async_client.responses.retrieve(last.response.id)
    assert again.output_text == text_of(events)


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
