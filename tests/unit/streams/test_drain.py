"""Leaving in good order."""

from __future__ import annotations

import asyncio
import os
import signal
from random import Random

import msgspec
import pytest

from millstream._core import Encoder, Log, Reader
from millstream.streams.drain import Drain
from millstream.streams.jitter import retry_ms
from millstream.types import Outcome
from tests.unit.streams.parts import SECOND, Bench


def events(log: Log) -> list[str]:
    """The names of all records' events."""
    encoder = Encoder(
        dialect="native",
        framing="ndjson",
        chunk_id="",
        model="",
        created=0,
        epoch=1,
        branches=[("m", "c")] * log.branches,
    )
    lines = Reader(log, encoder).take(1 << 20).splitlines()
    return [str(msgspec.json.decode(line)["event"]) for line in lines]


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


@pytest.mark.parametrize(
    ("shared", "resumable", "told"),
    [
        (True, True, ["token", "error", "handover", "done"]),
        (True, False, ["token", "error", "done"]),
        (False, True, ["token", "error", "done"]),
    ],
)
def test_only_what_can_be_read_elsewhere_is_handed_over(
    shared: bool, resumable: bool, told: list[str]
) -> None:
    bench = Bench()
    stream = bench.started(resumable=resumable, grace_ns=SECOND)
    stream.attach()
    bench.engine.token(1, "a")
    drain = Drain(bench.registry, seconds=0, shared=shared, clock=lambda: 0)
    drain.begin()
    drain.sweep(0)
    assert stream.outcome is Outcome.SHED
    assert events(stream.log) == told
    assert bench.store.kept == {stream.id: stream.recording}


def test_readers_are_told_to_come_back_apart() -> None:
    random = Random(7)
    times = [retry_ms(random) for _ in range(1000)]
    assert 2500 <= min(times) < 2600
    assert 4400 < max(times) <= 4500
    assert len(set(times)) > 500


def test_a_hand_over_names_the_stream_and_the_time() -> None:
    bench = Bench()
    stream = bench.started(resumable=True, grace_ns=SECOND)
    stream.attach()
    assert stream.hand_over(3000)
    assert not stream.hand_over(3000)
    encoder = Encoder(dialect="native", chunk_id="", model="", created=0, epoch=1)
    frames = Reader(stream.log, encoder).take().decode()
    assert "retry: 3000" in frames
    assert '"stream_id":"stream-1"' in frames


def test_all_branches_end_before_the_hand_over() -> None:
    bench = Bench()
    stream = bench.started(branches=2, resumable=True, grace_ns=SECOND)
    stream.attach()
    stream.hand_over(3000)
    told = ["error", "branch_done", "error", "branch_done", "handover", "done"]
    assert events(stream.log) == told


async def test_without_a_warning_streams_are_shed_at_once() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=None)
    await Drain(bench.registry, seconds=60, shared=True, clock=lambda: 0).finish()
    assert stream.outcome is Outcome.SHED
    assert (bench.leases, len(bench.registry)) == (0, 0)


async def test_what_others_can_read_gets_the_rest_of_its_time() -> None:
    bench = Bench()
    streams = [bench.started(request=number, grace_ns=None) for number in (1, 2)]
    drain = Drain(bench.registry, seconds=60, shared=True, clock=lambda: 0)
    drain.begin()
    finishing = asyncio.ensure_future(drain.finish())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bench.engine.finish(1)
    await asyncio.sleep(0)
    assert not finishing.done()
    bench.engine.finish(2)
    await finishing
    assert [stream.outcome for stream in streams] == [Outcome.COMPLETED] * 2


async def test_the_rest_of_the_time_is_none_once_the_deadline_has_passed() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=None)
    drain = Drain(bench.registry, seconds=1, shared=True, clock=lambda: bench.now_ns)
    drain.begin()
    bench.now_ns = 2 * SECOND
    await drain.finish()
    assert stream.outcome is Outcome.SHED


async def test_what_nobody_can_read_any_more_gets_no_more_time() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=None)
    drain = Drain(bench.registry, seconds=60, shared=False, clock=lambda: 0)
    drain.begin()
    await drain.finish()
    assert stream.outcome is Outcome.SHED
