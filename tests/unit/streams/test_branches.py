"""Several requests on one stream, each with its own end."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from millstream._core import Encoder, Log, Reader
from millstream.errors import EngineUnavailable
from millstream.streams.branch import Deadlines, worst
from millstream.streams.lifecycle import State
from millstream.streams.timers import StreamTimers
from millstream.types import Outcome, SamplingParams, Usage
from tests.unit.streams.parts import SECOND, Bench, ManualEngine


def events(log: Log) -> list[tuple[str, int | None, str | None]]:
    """(event, branch, outcome) of every record."""
    encoder = Encoder(
        dialect="native",
        framing="ndjson",
        chunk_id="",
        model="",
        created=0,
        branches=[("m", str(index)) for index in range(log.branches)],
    )
    lines = Reader(log, encoder).take(1 << 20).splitlines()
    found = [msgspec.json.decode(line, type=dict[str, object]) for line in lines]
    return [
        (str(event["event"]), event.get("branch"), event.get("outcome"))  # type: ignore[misc]
        for event in found
    ]


def test_every_branch_is_a_request_with_a_lease_of_its_own() -> None:
    bench = Bench()
    stream = bench.started(branches=3)
    assert bench.leases == 3
    assert bench.engine.branches == {1: 0, 2: 1, 3: 2}
    assert {id(log) for log in bench.engine.logs.values()} == {id(stream.log)}


def test_a_branch_that_finishes_settles_and_says_so_while_the_others_go_on() -> None:
    bench = Bench()
    stream = bench.started(branches=2)
    stream.attach()
    bench.engine.token(2, "b")
    bench.engine.finish(2, "length", tokens=3)
    assert [branch.outcome for branch in stream.branches] == [None, Outcome.LENGTH]
    assert (stream.outcome, bench.leases) == (None, 1)
    assert events(stream.log)[-1] == ("branch_done", 1, "length")
    bench.engine.token(1, "a")
    bench.engine.finish(1, tokens=4)
    assert stream.outcome is Outcome.LENGTH
    assert events(stream.log)[-2:] == [("branch_done", 0, "completed"), ("done", None, "length")]
    assert (stream.usage, bench.charged, bench.leases) == (Usage(14, 7), 21, 0)


def test_each_branch_pays_for_what_the_log_has_seen_of_it() -> None:
    bench = Bench()
    stream = bench.started(branches=2)
    bench.engine.token(1, "ab", count=2)
    bench.engine.token(2, "abcde", count=5)
    stream.end(Outcome.CANCELLED)
    assert [branch.usage for branch in stream.branches] == [Usage(7, 2), Usage(7, 5)]
    assert bench.charged == 21


def test_one_branch_is_cancelled_and_its_neighbour_does_not_notice() -> None:
    bench = Bench()
    stream = bench.started(branches=2)
    stream.attach()
    stream.cancel(0)
    stream.cancel(0)
    stream.cancel(7)
    assert bench.engine.aborted == [1]
    bench.engine.token(2, "b")
    bench.engine.finish(2)
    assert stream.outcome is Outcome.CANCELLED
    assert [event for event, *_ in events(stream.log)] == [
        "branch_done",
        "token",
        "finish",
        "usage",
        "branch_done",
        "done",
    ]


def test_all_running_branches_end_in_one_step_before_the_terminal_record() -> None:
    bench = Bench()
    stream = bench.started(branches=3)
    stream.attach()
    bench.engine.finish(2)
    assert stream.end(Outcome.SHED)
    assert sorted(bench.engine.aborted) == [1, 2, 3]
    assert [branch.outcome for branch in stream.branches] == [
        Outcome.SHED,
        Outcome.COMPLETED,
        Outcome.SHED,
    ]
    assert events(stream.log)[-5:] == [
        ("error", 0, None),
        ("branch_done", 0, "shed"),
        ("error", 2, None),
        ("branch_done", 2, "shed"),
        ("done", None, "shed"),
    ]
    assert not stream.end_branch(0, Outcome.CANCELLED)
    assert bench.leases == 0


def test_a_branch_keeps_its_engines_own_error() -> None:
    bench = Bench()
    stream = bench.started(branches=2)
    error = '{"message":"m","type":"t","param":null,"code":"c"}'
    bench.engine.fail(1, error)
    bench.engine.lose(2)
    assert stream.log.error_of(0) == error
    assert "engine_lost" in (stream.log.error_of(1) or "")
    assert stream.outcome is Outcome.UPSTREAM_ERROR


@pytest.mark.parametrize(
    ("ended", "whole"),
    [
        (["completed", "completed"], "completed"),
        (["completed", "length"], "length"),
        (["length", "cancelled", "engine_lost"], "cancelled"),
        (["timeout_idle", "completed"], "timeout_idle"),
    ],
)
def test_the_stream_ends_as_its_worst_branch(ended: list[str], whole: str) -> None:
    assert worst(Outcome(outcome) for outcome in ended) == whole


def test_the_order_of_the_endings_does_not_matter() -> None:
    outcomes = []
    for order in itertools.permutations((1, 2, 3)):
        bench = Bench()
        stream = bench.started(branches=3)
        for request in order:
            if request == 2:
                bench.engine.lose(request)
            else:
                bench.engine.finish(request, "length")
        outcomes.append(stream.outcome)
    assert set(outcomes) == {Outcome.ENGINE_LOST}


def test_branches_that_cannot_all_start_leave_nothing_behind() -> None:
    class Half(ManualEngine):
        def submit(self, request: int, *args: object, **kwargs: object) -> None:
            if request == 2:
                raise EngineUnavailable("away")
            super().submit(request, *args, **kwargs)  # type: ignore[arg-type]

    bench = Bench(engine=Half())
    stream = bench.stream(branches=2)
    with pytest.raises(EngineUnavailable):
        stream.start([([1], SamplingParams(max_tokens=1))] * 2)
    assert 1 in bench.engine.aborted
    assert (bench.charged, bench.leases, len(bench.registry)) == (0, 0, 0)
    assert stream.lifecycle.state is State.CLOSED


def test_the_deadlines_of_branches_are_kept_apart() -> None:
    bench = Bench()
    deadlines = Deadlines(first_token_ns=3 * SECOND, idle_ns=2 * SECOND, total_ns=10 * SECOND)
    stream = bench.started(branches=2, deadlines=deadlines)
    stream.attach()
    timers = StreamTimers(bench.registry)
    for second in range(4):
        bench.engine.token(2, "b")
        timers.sweep(second * SECOND)
    timers.sweep(3 * SECOND + 1)
    assert [branch.outcome for branch in stream.branches] == [Outcome.TIMEOUT_FIRST_TOKEN, None]
    timers.sweep(5 * SECOND + 1)
    assert stream.branches[1].outcome is Outcome.TIMEOUT_IDLE
    assert stream.outcome is Outcome.TIMEOUT_FIRST_TOKEN


def test_an_engine_that_fails_to_abort_one_branch_spares_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stubborn(Exception):
        pass

    bench = Bench()
    stream = bench.started(branches=3)
    abort = bench.engine.abort

    def refuse(request: int) -> None:
        if request == 2:
            raise Stubborn
        abort(request)

    monkeypatch.setattr(bench.engine, "abort", refuse)
    with pytest.raises(Stubborn):
        stream.end(Outcome.CANCELLED)
    assert sorted(bench.engine.aborted) == [1, 3]
    assert (bench.leases, stream.log.closed, len(bench.registry)) == (0, True, 0)
