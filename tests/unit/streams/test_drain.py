"""Leaving in good order."""

from __future__ import annotations

import os
import signal

import pytest

from millstream.streams.drain import Drain
from millstream.types import Outcome
from tests.unit.streams.parts import SECOND, Bench


@pytest.mark.parametrize(
    ("now", "outcome"), [(5 * SECOND, None), (12 * SECOND - 1, None), (12 * SECOND, Outcome.SHED)]
)
def test_streams_run_on_until_the_deadline(now: int, outcome: Outcome | None) -> None:
    bench = Bench()
    stream = bench.started()
    drain = Drain(bench.registry, seconds=10, shared=False, clock=lambda: 2 * SECOND)
    drain.sweep(now)
    assert stream.outcome is None
    drain.begin()
    assert drain.begun
    drain.sweep(now)
    assert stream.outcome is outcome


def test_beginning_again_does_not_move_the_deadline() -> None:
    bench = Bench()
    stream = bench.started()
    times = iter((0, 9 * SECOND))
    drain = Drain(bench.registry, seconds=10, shared=False, clock=lambda: next(times))
    drain.begin()
    drain.begin()
    drain.sweep(10 * SECOND)
    assert stream.outcome is Outcome.SHED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_begins_the_drain_and_still_reaches_the_server(number: signal.Signals) -> None:
    heard: list[int] = []
    previous = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        signal.signal(number, lambda received, _: heard.append(received))
        drain = Drain(Bench().registry, seconds=1, shared=False, clock=lambda: 0)
        drain.install()
        os.kill(os.getpid(), number)
        assert drain.begun
        assert heard == [number]
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)
