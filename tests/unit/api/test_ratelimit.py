"""The limiter's answer as a response; `tests/unit/admission/test_headers.py` has the fields."""

from __future__ import annotations

import json

import pytest

from millstream.admission import Cost, Limits, MemoryLimiter, Refusal, RequestRate, ScopedLimits
from millstream.api.opening import Opened
from millstream.api.ratelimit import final_headers, go_duration, limit_headers, refusal_response
from millstream.types import Outcome
from tests.unit.streams.parts import RESERVED, Bench

MS = 1_000_000


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (12 * MS, "12ms"),
        (999 * MS, "999ms"),
        (1000 * MS, "1s"),
        (1500 * MS, "1.5s"),
        (59_999 * MS, "59.999s"),
        (60_000 * MS, "1m0s"),
        (360_000 * MS, "6m0s"),
        (3_661_250 * MS, "1h1m1.25s"),
        # Go's longest: what is longer it cannot read.
        (1 << 64, "2562047h47m16.854s"),
    ],
)
def test_durations_are_those_of_go(nanoseconds: int, text: str) -> None:
    assert go_duration(nanoseconds) == text


def test_an_admission_shows_what_is_left_after_all_its_branches() -> None:
    stream = Bench().started(branches=2)
    headers = limit_headers(stream)
    assert headers["x-ratelimit-limit-tokens"] == str(10 * RESERVED)
    assert headers["x-ratelimit-remaining-tokens"] == str(8 * RESERVED)
    assert "x-tokens-charged" not in headers


def test_an_answer_in_one_piece_shows_what_was_charged() -> None:
    bench = Bench()
    stream = bench.started()
    assert final_headers(Opened(stream, {}, stream)) == {}
    bench.engine.token(1, "Hello", count=2)
    stream.end(Outcome.CANCELLED)
    headers = final_headers(Opened(stream, {}, stream))
    assert headers["x-tokens-charged"] == "9"
    assert headers["x-ratelimit-remaining-tokens"] == str(10 * RESERVED - 9)


def test_who_gets_the_answer_of_an_earlier_request_is_charged_nothing() -> None:
    bench = Bench()
    stream = bench.started()
    bench.engine.finish(1, tokens=3)
    assert final_headers(Opened(stream, {}, None)) == {}


def test_a_refusal_says_when_to_come_back_in_every_form() -> None:
    # redis-cell#56, flask-limiter#62: waiting exactly Retry-After must be enough.
    scopes = (ScopedLimits("global", Limits(requests=RequestRate(10, 2))),)
    limiter = MemoryLimiter(clock=lambda: 0)
    limiter.try_reserve(scopes, Cost(1))
    limiter.try_reserve(scopes, Cost(1))
    refusal = limiter.try_reserve(scopes, Cost(1))
    assert isinstance(refusal, Refusal)
    response = refusal_response(refusal)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    assert response.headers["retry-after-ms"] == "100"
    assert response.headers["x-ratelimit-remaining-requests"] == "0"
    assert response.headers["ratelimit"] == '"requests";r=0;t=1'
    body = json.loads(bytes(response.body))
    assert (body["error"]["type"], body["error"]["code"]) == (
        "rate_limit_error",
        "rate_limit_exceeded",
    )
    assert body["error"]["message"] == (
        "The limit on requests of the server is reached. Try again in 100 ms."
    )
    assert body["violated_policies"] == ["requests"]
