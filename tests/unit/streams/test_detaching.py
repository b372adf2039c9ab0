"""Streams whose readers leave and come back."""

from __future__ import annotations

import pytest

from millstream.streams.lifecycle import State
from millstream.streams.stream import Stream
from millstream.streams.timers import StreamTimers
from millstream.types import Outcome
from tests.unit.streams.parts import SECOND, Bench

GRACE = 3 * SECOND


def state_of(stream: Stream) -> State:
    return stream.lifecycle.state


def test_the_last_reader_leaves_a_resumable_stream_to_go_on_for_its_grace() -> None:
    # modelcontextprotocol/rust-sdk#967: on a resumable transport leaving is not cancelling.
    bench = Bench()
    stream = bench.started(grace_ns=GRACE)
    timers = StreamTimers(bench.registry)
    stream.attach()
    stream.attach()
    stream.detach()
    assert state_of(stream) is State.HANDSHAKING
    bench.now_ns = SECOND
    stream.detach()
    assert state_of(stream) is State.DETACHED
    timers.sweep(SECOND + GRACE)
    assert (stream.outcome, bench.engine.aborted) == (None, [])
    timers.sweep(SECOND + GRACE + 1)
    assert stream.outcome is Outcome.CLIENT_GONE
    assert bench.engine.aborted == [1]
    assert (bench.leases, len(bench.registry)) == (0, 0)


@pytest.mark.parametrize(("tokens", "state"), [(0, State.HANDSHAKING), (2, State.ACTIVE)])
def test_whoever_comes_back_in_time_finds_it_as_if_nobody_had_left(
    tokens: int, state: State
) -> None:
    bench = Bench()
    stream = bench.started(grace_ns=GRACE)
    stream.attach()
    stream.detach()
    for _ in range(tokens):
        bench.engine.token(1, "a")
    stream.attach()
    assert state_of(stream) is state
    StreamTimers(bench.registry).sweep(100 * GRACE)
    assert stream.outcome is None


def test_the_grace_starts_anew_with_every_leaving() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=GRACE)
    timers = StreamTimers(bench.registry)
    for _ in range(3):
        stream.attach()
        bench.now_ns += GRACE
        stream.detach()
        timers.sweep(bench.now_ns + GRACE)
        assert stream.outcome is None
    timers.sweep(bench.now_ns + GRACE + 1)
    assert stream.outcome is Outcome.CLIENT_GONE


def test_a_stream_that_nobody_ever_read_has_its_grace_from_admission_on() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=GRACE, admitted_ns=SECOND)
    timers = StreamTimers(bench.registry)
    timers.sweep(SECOND + GRACE)
    assert stream.outcome is None
    timers.sweep(SECOND + GRACE + 1)
    assert stream.outcome is Outcome.CLIENT_GONE


def test_a_reader_elsewhere_keeps_the_stream_alive() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=GRACE)
    timers = StreamTimers(bench.registry)
    bench.now_ns = 2 * GRACE
    stream.watched()
    timers.sweep(3 * GRACE)
    assert stream.outcome is None
    timers.sweep(3 * GRACE + 1)
    assert stream.outcome is Outcome.CLIENT_GONE


def test_being_watched_elsewhere_does_not_detach_a_stream_that_is_read_here() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=GRACE)
    stream.attach()
    stream.watched()
    StreamTimers(bench.registry).sweep(100 * GRACE)
    assert stream.outcome is None


def test_nobody_has_to_read_a_stream_in_the_background() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=None)
    stream.attach()
    stream.detach()
    StreamTimers(bench.registry).sweep(10**6 * GRACE)
    assert (stream.outcome, state_of(stream)) == (None, State.DETACHED)
    bench.engine.finish(1)
    assert stream.outcome is Outcome.COMPLETED
    assert bench.store.kept == {stream.id: stream.recording}


def test_a_detached_stream_that_ends_is_kept_and_released_at_once() -> None:
    # vercel/resumable-stream#44: who comes just after the end still finds all of it.
    bench = Bench()
    stream = bench.started(grace_ns=GRACE)
    stream.attach()
    stream.detach()
    bench.engine.token(1, "a")
    bench.engine.finish(1)
    assert state_of(stream) is State.CLOSED
    assert (stream.detached_ns, len(bench.registry)) == (None, 0)
    assert bench.store.kept[stream.id].log.text() == "a"
    assert bench.store.kept[stream.id].outcome is Outcome.COMPLETED


def test_a_plain_stream_is_not_kept() -> None:
    bench = Bench()
    bench.started()
    bench.engine.finish(1)
    assert bench.store.kept == {}


def test_a_reader_of_a_stream_that_is_over_can_come_and_go() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=GRACE)
    bench.engine.finish(1)
    stream.attach()
    stream.detach()
    assert state_of(stream) is State.CLOSED
    assert bench.closed == [stream]


def test_every_move_is_reported_in_order() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=GRACE)
    stream.attach()
    stream.mark_active()
    stream.detach()
    bench.engine.token(1, "a")
    stream.attach()
    stream.end(Outcome.CANCELLED)
    stream.detach()
    way = [bench.heard.moves[0][0], *(to for _, to in bench.heard.moves)]
    assert way == [
        State.IDLE,
        State.HANDSHAKING,
        State.ACTIVE,
        State.DETACHED,
        State.ACTIVE,
        State.GRACEFUL_STOPPING,
        State.CLOSED,
    ]
    assert [origin for origin, _ in bench.heard.moves] == way[:-1]


def test_a_stream_that_nobody_reads_becomes_active_too() -> None:
    bench = Bench()
    stream = bench.started(grace_ns=None)
    timers = StreamTimers(bench.registry)
    timers.sweep(0)
    assert state_of(stream) is State.HANDSHAKING
    bench.engine.token(1, "a")
    timers.sweep(1)
    assert state_of(stream) is State.ACTIVE
