"""Waits and durations as clients parse them."""

from __future__ import annotations

import json

import pytest

from millstream.admission import (
    Cost,
    Lease,
    Limits,
    MemoryLimiter,
    Refusal,
    RequestRate,
    ScopedLimits,
    TokenWindow,
)
from millstream.api.ratelimit import go_duration, limit_headers, refusal_response

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
    ],
)
def test_durations_are_those_of_go(nanoseconds: int, text: str) -> None:
    assert go_duration(nanoseconds) == text


LIMITS = Limits(requests=RequestRate(10, 2), tokens=TokenWindow(100, 1000))
SCOPES = (ScopedLimits("global", LIMITS),)


def test_an_admission_shows_what_is_left_after_it() -> None:
    lease = MemoryLimiter(clock=lambda: 0).try_reserve(SCOPES, Cost(40))
    assert isinstance(lease, Lease)
    assert limit_headers(lease) == {
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "100ms",
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "60",
        "x-ratelimit-reset-tokens": "1.063s",  # a sixteenth of the window is counted whole
    }


def test_a_refusal_says_when_to_come_back_in_every_form() -> None:
    # redis-cell#56, flask-limiter#62: waiting exactly Retry-After must be enough.
    limiter = MemoryLimiter(clock=lambda: 0)
    limiter.try_reserve(SCOPES, Cost(1))
    limiter.try_reserve(SCOPES, Cost(1))
    refusal = limiter.try_reserve(SCOPES, Cost(1))
    assert isinstance(refusal, Refusal)
    response = refusal_response(refusal)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    assert response.headers["retry-after-ms"] == "100"
    assert response.headers["x-ratelimit-remaining-requests"] == "0"
    error = json.loads(bytes(response.body))["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert error["message"] == "The limit on requests of global is reached. Try again in 100 ms."


def test_a_server_without_limits_sends_no_fields_about_them() -> None:
    lease = MemoryLimiter(clock=lambda: 0).try_reserve((), Cost(1))
    assert isinstance(lease, Lease)
    assert limit_headers(lease) == {}
