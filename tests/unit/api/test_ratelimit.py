"""Waits and durations as clients parse them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from millstream.api.ratelimit import go_duration, refusal_response

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


@dataclass
class _Snapshot:
    requests: None = None
    tokens: None = None


@dataclass
class _Refusal:
    retry_after_ns: int
    scope: str = "model"
    dimension: str = "tokens"

    @property
    def snapshot(self) -> _Snapshot:
        return _Snapshot()


@pytest.mark.parametrize(
    ("wait_ns", "seconds", "milliseconds"),
    [
        (0, "1", "1"),
        (1, "1", "1"),
        (2000 * MS, "2", "2000"),
        (2100 * MS, "3", "2100"),
        (-5, "1", "1"),
    ],
)
def test_the_wait_is_rounded_up_and_never_zero(
    wait_ns: int, seconds: str, milliseconds: str
) -> None:
    # redis-cell#56, flask-limiter#62: waiting exactly Retry-After must be enough.
    response = refusal_response(_Refusal(wait_ns))  # type: ignore[arg-type]
    assert response.status_code == 429
    assert response.headers["retry-after"] == seconds
    assert response.headers["retry-after-ms"] == milliseconds
