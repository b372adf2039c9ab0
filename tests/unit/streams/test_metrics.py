"""What the metrics learn of streams and their branches."""

from __future__ import annotations

from unittest.mock import Mock, call

from millstream.streams.metrics import StreamMetrics
from millstream.telemetry.metrics import Metrics
from millstream.types import Kind, Outcome
from tests.unit.streams.parts import SECOND, Bench


def observed(bench: Bench) -> Mock:
    """The metrics that hear of a bench's streams."""
    metrics = Mock(spec=Metrics)
    observer = StreamMetrics(metrics)
    bench.heard.moved = observer.moved  # type: ignore[method-assign]
    return metrics


def test_each_branch_is_a_request_with_its_own_end_cost_and_times() -> None:
    bench = Bench()
    stream = bench.started(branches=2)
    start = stream.admitted_wall_ns
    for branch, at in ((0, 1), (1, 3), (1, 4)):
        stream.log.append(
            Kind.TOKEN, "a", token_count=1, branch=branch, time_ns=start + at * SECOND
        )
    bench.engine.finish(2, "length", tokens=2)
    bench.engine.lose(1)
    metrics = Mock(spec=Metrics)
    StreamMetrics(metrics).closed(stream)
    assert metrics.request.mock_calls == [
        call("chat.completion", "m", "engine_lost"),
        call("chat.completion", "m", "length"),
    ]
    assert metrics.tokens.mock_calls == [
        call("m", prompt=7, completion=1, partial=True),
        call("m", prompt=7, completion=2, partial=False),
    ]
    assert metrics.first_token.mock_calls == [call("m", 1.0), call("m", 3.0)]
    counts = [sum(made.args[1]) for made in metrics.inter_token.mock_calls]
    assert (counts, metrics.inter_token.mock_calls[1].args[2]) == ([0, 1], 1.0)
    assert metrics.stream_closed.mock_calls == [call("m")] * 2


def test_a_branch_without_a_token_has_no_time_to_it() -> None:
    bench = Bench()
    stream = bench.started()
    stream.end(Outcome.CANCELLED)
    metrics = Mock(spec=Metrics)
    StreamMetrics(metrics).closed(stream)
    assert metrics.first_token.mock_calls == metrics.inter_token.mock_calls == []


def test_streams_are_detached_from_the_last_leaving_to_coming_back_or_ending() -> None:
    bench = Bench()
    metrics = observed(bench)
    stream = bench.started(grace_ns=SECOND)
    stream.attach()
    stream.detach()
    assert (metrics.stream_detached.call_count, metrics.stream_left_detached.call_count) == (1, 0)
    stream.attach()
    assert (metrics.stream_detached.call_count, metrics.stream_left_detached.call_count) == (1, 1)
    stream.detach()
    stream.end(Outcome.CANCELLED)
    assert (metrics.stream_detached.call_count, metrics.stream_left_detached.call_count) == (2, 2)
