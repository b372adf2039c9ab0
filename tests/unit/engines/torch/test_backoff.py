"""Waiting times between attempts."""

from __future__ import annotations

from millstream.engines.torch.backoff import Backoff


def test_it_doubles_up_to_the_cap() -> None:
    backoff = Backoff(initial_seconds=1, cap_seconds=6)
    assert [backoff.failed() for _ in range(5)] == [1, 2, 4, 6, 6]


def test_a_service_that_was_healthy_starts_it_anew() -> None:
    backoff = Backoff(initial_seconds=1, cap_seconds=60, healthy_seconds=10)
    assert [backoff.failed(), backoff.failed()] == [1, 2]
    assert backoff.failed(after_seconds=10) == 1
    assert backoff.failed(after_seconds=9) == 2
