"""Which framing an ``Accept`` field asks for."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from millstream.api.accept import framing_for
from millstream.api.errors import BodyRefused


def request(accept: str | None) -> Request:
    headers = [] if accept is None else [(b"accept", accept.encode("latin-1", "replace"))]
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
        ("application/*", "application/x-ndjson"),
        ("text/event-stream;q=0, */*", "application/x-ndjson"),
        # The more specific range goes first, whatever its weight and place.
        ("text/*;q=0, */*", "application/x-ndjson"),
        ("*/*, application/*;q=0.1, text/event-stream;q=0.2", "text/event-stream"),
        ("*/*;q=0, application/jsonl;q=0.001", "application/jsonl"),
        ("application/*;q=0.9, text/event-stream;q=0.8", "application/x-ndjson"),
        ("application/*;q=0.5, application/jsonl;q=0.6", "application/jsonl"),
        # A format that is named goes before the JSON that clients ask for by habit.
        ("application/json, application/x-ndjson;q=0.5", "application/x-ndjson"),
        # Types that are not offered change nothing.
        ("text/html, application/xhtml+xml, application/jsonl;q=0.1", "application/jsonl"),
        ("text/html, */*;q=0.8", "text/event-stream"),
        # Malformed members say nothing.
        ("text/event-stream;q=high, application/jsonl;q=0.1", "application/jsonl"),
        ("text/event-stream;q=nan, application/jsonl;q=0.1", "application/jsonl"),
        ("text/event-stream;q=-1, */*;q=0.1", "text/event-stream"),
        ("application/x-ndjson;q=2, application/jsonl", "application/jsonl"),
        ("application/x-ndjson;q=0.1234, application/jsonl;q=0.1", "application/jsonl"),
        ("application/x-ndjson;q=٠.9, application/jsonl;q=0.1", "application/jsonl"),
        ("*, application/jsonl", "application/jsonl"),
        (", ,application/jsonl,", "application/jsonl"),
        # Parameters of a type do not hide it, and quotes hide what is in them.
        ("text/event-stream; charset=utf-8", "text/event-stream"),
        ('text/event-stream;v="a,b;q=0";q=0.9, application/jsonl;q=0.8', "text/event-stream"),
        ("application/jsonl;q=1.000, text/event-stream;q=0.999", "application/jsonl"),
        ("application/jsonl;q=0.;ext=1, text/event-stream;q=1.", "text/event-stream"),
    ],
)
def test_the_best_liked_framing_is_taken(accept: str | None, media_type: str) -> None:
    assert framing_for(request(accept)).media_type == media_type


def test_several_fields_are_one_list() -> None:
    fields = [(b"accept", b"image/png"), (b"accept", b"application/jsonl")]
    sent = Request({"type": "http", "method": "POST", "headers": fields})
    assert framing_for(sent).media_type == "application/jsonl"


@pytest.mark.parametrize(
    "accept",
    [
        "image/png",
        "text/event-stream;q=0",
        "text/event-stream;q=0, application/json",
        "*/*;q=0",
        "*/*;q=0.000",
        "application/json;q=0",
        ",;q=x",
        "text",
        "*/event-stream",
        'image/png;v="unclosed, */*',
        '"' * 10_000,
    ],
    ids=lambda accept: accept[:40],
)
def test_nothing_acceptable_is_a_406(accept: str) -> None:
    with pytest.raises(BodyRefused) as refused:
        framing_for(request(accept))
    assert refused.value.status == 406
