"""Deadlines under a clock that the test turns."""

from __future__ import annotations

from millstream.streams.branch import Deadlines
from millstream.streams.timers import StreamTimers
from millstream.types import Outcome
from tests.unit.streams.parts import SECOND, Bench

DEADLINES = Deadlines(first_token_ns=3 * SECOND, idle_ns=2 * SECOND, total_ns=10 * SECOND)


def test_a_stream_without_a_first_token_ends_after_its_deadline() -> None:
    # litellm#19909: the limit on the first token was not enforced.
    bench = Bench()
    stream = bench.started(deadlines=DEADLINES)
    timers = StreamTimers(bench.registry)
    timers.sweep(3 * SECOND)
    assert stream.outcome is None
    timers.sweep(3 * SECOND + 1)
    assert stream.outcome is Outcome.TIMEOUT_FIRST_TOKEN


def test_a_stream_that_pauses_too_long_after_its_first_token_ends() -> None:
    # tensorzero#6328: no limit between two tokens.
    bench = Bench()
    stream = bench.started(deadlines=DEADLINES)
    timers = StreamTimers(bench.registry)
    bench.engine.token(1, "a")
    timers.sweep(1 * SECOND)
    bench.engine.token(1, "b")
    timers.sweep(3 * SECOND)
    timers.sweep(5 * SECOND)
    assert stream.outcome is None
    timers.sweep(5 * SECOND + 1)
    assert stream.outcome is Outcome.TIMEOUT_IDLE


def test_progress_does_not_extend_the_total() -> None:
    bench = Bench()
    stream = bench.started(deadlines=DEADLINES)
    timers = StreamTimers(bench.registry)
    for second in range(11):
        bench.engine.token(1, "a")
        timers.sweep(second * SECOND)
    assert stream.outcome is None
    timers.sweep(10 * SECOND + 1)
    assert stream.outcome is Outcome.TIMEOUT_TOTAL


def test_without_deadlines_nothing_ends() -> None:
    bench = Bench()
    stream = bench.started()
    StreamTimers(bench.registry).sweep(10**6 * SECOND)
    assert stream.outcome is None


def test_an_ended_stream_keeps_its_outcome() -> None:
    bench = Bench()
    stream = bench.started(deadlines=DEADLINES)
    stream.attach()
    bench.engine.finish(1)
    StreamTimers(bench.registry).sweep(100 * SECOND)
    assert stream.outcome is Outcome.COMPLETED
