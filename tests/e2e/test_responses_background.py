"""Responses in the background, and their ends, as openai-python sees them."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests.e2e.http1 import Connection
from tests.e2e.responses import (
    ASKED,
    ENDLESS,
    ENDLESS_BODY,
    RESPONSES,
    TERMINAL,
    frames,
    numbers,
    read_again,
    streamed,
    text_of,
    until_ended,
)
from tests.e2e.servers import Server
from tests.waiting import until


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
