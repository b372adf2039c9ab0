"""Which framing an ``Accept`` field asks for."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from millstream.api.accept import framing_for
from millstream.api.errors import BodyRefused


def request(accept: str | None) -> Request:
    headers = [] if accept is None else [(b"accept", accept.encode())]
    return Request({"type": "http", "method": "POST", "headers": headers})


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, "text/event-stream"),
        ("", "text/event-stream"),
        ("*/*", "text/event-stream"),
        ("application/json", "text/event-stream"),  # openai-python, openai-node
        ("application/json, text/event-stream", "text/event-stream"),
        ("text/event-stream", "text/event-stream"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("application/jsonl", "application/jsonl"),
        ("application/jsonl;q=0.9, application/x-ndjson;q=0.8", "application/jsonl"),
        ("text/event-stream;q=0.1, application/x-ndjson", "application/x-ndjson"),
        ("Application/X-NDJSON ; Q=1", "application/x-ndjson"),
        ("application/*", "text/event-stream"),
        ("text/event-stream;q=0, */*", "application/x-ndjson"),
    ],
)
def test_the_best_liked_framing_is_taken(accept: str | None, media_type: str) -> None:
    assert framing_for(request(accept)).media_type == media_type


def test_several_fields_are_one_list() -> None:
    fields = [(b"accept", b"image/png"), (b"accept", b"application/jsonl")]
    sent = Request({"type": "http", "method": "POST", "headers": fields})
    assert framing_for(sent).media_type == "application/jsonl"


@pytest.mark.parametrize("accept", ["image/png", "text/event-stream;q=0", "*/*;q=0", ",;q=x"])
def test_nothing_acceptable_is_a_406(accept: str) -> None:
    with pytest.raises(BodyRefused) as refused:
        framing_for(request(accept))
    assert refused.value.status == 406
