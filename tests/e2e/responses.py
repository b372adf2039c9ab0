"""``/v1/responses`` over plain HTTP, judged by openai-python's types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import openai
from openai.types.responses import Response

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


def until_ended(client: openai.OpenAI, response_id: str) -> Response:
    """The response, once it has ended."""

    def ended() -> bool:
        return client.responses.retrieve(response_id).status not in ("queued", "in_progress")

    until(ended, what="the response has ended")
    return as_response(client.responses.with_raw_response.retrieve(response_id).content)
