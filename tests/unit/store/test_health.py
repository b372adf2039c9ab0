from __future__ import annotations

import logging

import pytest

from millstream.store.valkey.health import REFUSAL_LINE_NS, Health
from tests.clock import Clock
from tests.unit.store.recordings import Observed

MILLISECOND = 1_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock(0)


@pytest.fixture
def observed() -> Observed:
    return Observed()


@pytest.fixture
def health(clock: Clock, observed: Observed) -> Health:
    return Health(clock=clock, observer=observed)


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_an_outage_is_told_once_however_many_calls_fail(
    health: Health, observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "millstream")
    health.answered()
    for _ in range(5):
        health.failed("write", OSError("refused"))
    health.answered()
    health.answered()
    assert events(caplog) == ["store_down", "store_up"]
    assert observed.ups == [True, False, True]
    assert (observed.errors, health.failures) == (["write"] * 5, 5)


def test_a_server_that_is_there_from_the_start_makes_no_line(
    health: Health, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "millstream")
    health.answered()
    assert events(caplog) == []


def test_while_it_is_away_one_call_tries_after_pauses_that_double_to_a_bound(
    health: Health, clock: Clock
) -> None:
    assert health.may_try()
    health.failed("read", OSError())
    tried = []
    for now_ms in range(0, 10_000, 50):
        clock.now_ns = now_ms * MILLISECOND
        if health.may_try():
            assert not health.may_try()
            tried.append(now_ms)
            health.failed("read", OSError())
    assert tried == [100, 300, 700, 1500, 3100, 5100, 7100, 9100]
    health.answered()
    assert [health.may_try() for _ in range(3)] == [True] * 3
    health.failed("read", OSError())
    assert health.pause_seconds == 0.1


def test_refusals_are_told_once_a_minute_and_are_no_outage(
    health: Health, observed: Observed, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    health.answered()
    for _ in range(3):
        health.refused("write", ValueError("OOM"))
    assert events(caplog) == ["store_refuses"]
    clock.now_ns += REFUSAL_LINE_NS
    health.refused("write", ValueError("OOM"))
    assert events(caplog) == ["store_refuses"] * 2
    assert observed.errors == ["write"] * 4
    assert health.up
