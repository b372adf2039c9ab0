"""Answers that are no stream, and requests that are repeated."""

from __future__ import annotations

import json

import pytest

from millstream.client import (
    Follower,
    ReconnectPolicy,
    RequestRefused,
    StreamGap,
    StreamNotFound,
)
from millstream.client.request import opening
from tests.reference.native import completed
from tests.unit.client.reading import AT_ONCE, EVENTS, follower

STREAM = completed([f"t{n} " for n in range(10)])
BODY = b"".join(one.data for one in STREAM.frames())
ERROR = {"message": "no such stream", "type": "invalid_request_error", "code": "stream_not_found"}


def refusal(status: int, headers: dict[str, str] | None = None, body: object = None) -> Follower:
    reading = follower(policy=ReconnectPolicy(base_seconds=0.0, max_attempts=2))
    assert reading.next_attempt(0.0) is not None
    assert not reading.answered(status, headers or {})
    reading.refused(status, headers or {}, json.dumps(body).encode())
    return reading


def test_an_unknown_stream_is_not_found() -> None:
    with pytest.raises(StreamNotFound, match="404: no such stream") as error:
        refusal(404, body={"error": ERROR}).next_attempt(0.0)
    assert error.value.failure is not None
    assert error.value.failure.code == "stream_not_found"


def test_a_trimmed_stream_is_a_gap() -> None:
    with pytest.raises(StreamGap, match="records 1 to 4") as error:
        refusal(410, body={"error": ERROR, "oldest": 5, "latest": 9}).next_attempt(0.0)
    assert (error.value.oldest, error.value.latest) == (5, 9)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 406, 422])
def test_a_refusal_that_lasts_is_raised_at_once(status: int) -> None:
    with pytest.raises(RequestRefused) as error:
        refusal(status, body="no object").next_attempt(0.0)
    assert error.value.status == status
    assert error.value.failure is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "3", "retry-after-ms": "2100"}, 2.1),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({"retry-after": "٣"}, 0.0),
    ],
)
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_refusal_for_now_is_waited_out(
    status: int, headers: dict[str, str], seconds: float
) -> None:
    reading = refusal(status, headers)
    attempt = reading.next_attempt(0.0)
    assert attempt is not None
    assert attempt.delay_seconds == seconds
    reading.refused(status, {}, b"")
    with pytest.raises(RequestRefused) as error:
        reading.next_attempt(0.0)
    assert error.value.status == status


def test_who_asks_for_too_long_a_wait_is_not_waited_for() -> None:
    with pytest.raises(RequestRefused, match="429"):
        refusal(429, {"retry-after": "86400"}).next_attempt(0.0)


def test_a_page_of_a_proxy_is_no_stream() -> None:
    with pytest.raises(RequestRefused, match="not an event stream"):
        refusal(200, {"content-type": "text/html"}).next_attempt(0.0)


def making(**parameters: object) -> Follower:
    return Follower(opening=opening(parameters, integrity=True, key=None), policy=AT_ONCE)


def test_a_lost_first_answer_repeats_the_request_under_the_same_key() -> None:
    reading = making(model="m", prompt="p")
    first = reading.next_attempt(0.0)
    reading.cut(OSError())
    second = reading.next_attempt(0.0)
    assert first is not None
    assert second is not None
    assert first.request is second.request
    assert first.request.method == "POST"
    assert len(first.request.headers["Idempotency-Key"]) == 32
    assert json.loads(first.request.body or b"") == {
        "stream": True,
        "resumable": True,
        "integrity": True,
        "model": "m",
        "prompt": "p",
    }


def test_two_streams_have_two_keys() -> None:
    keys = {opening({}, integrity=True, key=None).headers["Idempotency-Key"] for _ in range(9)}
    assert len(keys) == 9


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "ä", "a\n"])
def test_a_bad_key_is_refused_before_it_is_sent(key: str) -> None:
    with pytest.raises(ValueError, match="idempotency key"):
        opening({}, integrity=True, key=key)


def test_after_the_head_of_an_answer_the_stream_is_read_by_its_id() -> None:
    reading = making()
    reading.next_attempt(0.0)
    assert reading.answered(200, {**EVENTS, "x-stream-id": "s1"})
    reading.cut()
    attempt = reading.next_attempt(0.0)
    assert attempt is not None
    assert (attempt.request.method, attempt.request.path) == ("GET", "/v1/streams/s1")
    assert "Last-Event-ID" not in attempt.request.headers
    assert reading.answered(200, EVENTS)
    assert "".join(one.text for one in reading.feed(BODY, 0.0)) == STREAM.text


def test_an_answer_without_a_stream_id_is_none_of_millstream() -> None:
    reading = making()
    reading.next_attempt(0.0)
    assert not reading.answered(200, EVENTS)
    reading.refused(200, EVENTS, b"")
    with pytest.raises(RequestRefused):
        reading.next_attempt(0.0)
