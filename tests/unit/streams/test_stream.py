"""One owner, one ending, one outcome."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from millstream.errors import EngineUnavailable
from millstream.streams.lifecycle import State
from millstream.types import Outcome, SamplingParams, Usage
from tests.unit.streams.parts import Bench


def test_a_finished_engine_completes_the_stream_at_its_count() -> None:
    bench = Bench()
    stream = bench.started()
    bench.engine.token(1, "Hello")
    bench.engine.finish(1, tokens=3)
    assert stream.outcome is Outcome.COMPLETED
    assert stream.log.outcome == "completed"
    assert (bench.charged, bench.leases) == (10, 0)


def test_a_choice_cut_by_its_length_makes_the_outcome_length() -> None:
    bench = Bench()
    stream = bench.started()
    bench.engine.finish(1, "length", tokens=5)
    assert stream.outcome is Outcome.LENGTH


def test_a_lost_engine_ends_with_an_error_record_and_pays_for_what_was_emitted() -> None:
    # litellm#35098: a client pays prompt + emitted tokens, never 0, when no usage comes.
    bench = Bench()
    stream = bench.started()
    bench.engine.token(1, "Hel", count=2)
    bench.engine.lose(1)
    assert stream.outcome is Outcome.ENGINE_LOST
    assert stream.log.error is not None
    assert msgspec.json.decode(stream.log.error)["code"] == "engine_lost"
    assert (bench.charged, bench.leases) == (9, 0)


def test_an_engines_own_error_is_kept_and_not_followed_by_a_second() -> None:
    bench = Bench()
    stream = bench.started()
    error = '{"message":"m","type":"t","param":null,"code":"c"}'
    bench.engine.fail(1, error)
    assert stream.outcome is Outcome.UPSTREAM_ERROR
    assert stream.log.error == error
    assert stream.log.tail == 2


def test_the_first_ending_wins_and_settles_once() -> None:
    bench = Bench()
    stream = bench.started()
    stream.attach()
    assert stream.end(Outcome.CANCELLED)
    assert not stream.end(Outcome.SHED)
    stream.detach()
    assert stream.outcome is Outcome.CANCELLED
    assert (bench.charged, bench.leases) == (7, 0)
    assert bench.engine.aborted == [1]
    assert bench.closed == [stream]


def test_a_plain_stream_ends_when_its_last_reader_leaves() -> None:
    bench = Bench()
    stream = bench.started()
    stream.attach()
    stream.attach()
    stream.detach()
    assert stream.outcome is None
    stream.detach()
    assert stream.outcome is Outcome.CLIENT_GONE
    assert bench.engine.aborted == [1]
    assert len(bench.registry) == 0


def test_an_ended_stream_is_released_by_its_last_reader_only() -> None:
    bench = Bench()
    stream = bench.started()
    stream.attach()
    bench.engine.finish(1)
    assert stream.lifecycle.ended
    assert list(bench.registry) == [stream]
    stream.detach()
    assert stream.lifecycle.state is State.CLOSED
    assert bench.closed == [stream]


def test_a_stream_that_cannot_start_charges_nothing_and_leaves_nothing() -> None:
    bench = Bench()
    bench.engine.ready = False
    stream = bench.stream()
    with pytest.raises(EngineUnavailable):
        stream.start([([1], SamplingParams(max_tokens=1))])
    assert (bench.charged, bench.leases) == (0, 0)
    assert len(bench.registry) == 0
    assert stream.lifecycle.state is State.CLOSED


def test_an_engine_that_fails_to_abort_does_not_keep_the_lease_or_the_readers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stubborn(Exception):
        pass

    bench = Bench()
    stream = bench.started()

    def refuse(_request: int) -> None:
        raise Stubborn

    monkeypatch.setattr(bench.engine, "abort", refuse)
    with pytest.raises(Stubborn):
        stream.end(Outcome.CANCELLED)
    assert (bench.charged, bench.leases) == (7, 0)
    assert stream.log.closed


def test_usage_is_the_engines_count_or_what_the_log_has_seen() -> None:
    bench = Bench()
    stream = bench.started()
    bench.engine.token(1, "ab", count=2)
    assert stream.usage == Usage(7, 2)
    bench.engine.finish(1, tokens=4)
    assert stream.usage == Usage(7, 4)


async def test_waiting_returns_with_the_outcome_and_at_once_afterwards() -> None:
    bench = Bench()
    stream = bench.started()
    stream.attach()
    waiting = asyncio.ensure_future(stream.wait_ended())
    await asyncio.sleep(0)
    assert not waiting.done()
    bench.engine.finish(1)
    await waiting
    await stream.wait_ended()


async def test_a_waiter_that_was_cancelled_does_not_disturb_the_ending() -> None:
    bench = Bench()
    stream = bench.started()
    waiting = asyncio.ensure_future(stream.wait_ended())
    await asyncio.sleep(0)
    waiting.cancel()
    bench.engine.finish(1)
    assert stream.outcome is Outcome.COMPLETED
