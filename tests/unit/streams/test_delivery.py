"""Batches, back-pressure, leaving and giving up."""

from __future__ import annotations

import asyncio

import pytest

from millstream.streams.deliveries import Deliveries
from millstream.streams.delivery import KEEP_ALIVE
from millstream.streams.hub import Wakeups
from millstream.types import Outcome
from tests.unit.streams.delivered import Sending, delivery_of, opened, settle
from tests.unit.streams.parts import SECOND, Bench


async def test_the_end_leaves_in_the_last_message(wakeups: Wakeups) -> None:
    bench, send, stream = opened()
    running = asyncio.ensure_future(delivery_of(stream, send, wakeups).run())
    bench.engine.token(1, "a")
    await settle()
    bench.engine.finish(1)
    await running
    assert send.messages[-1]["more_body"] is False
    assert b"done" in send.messages[-1]["body"]
    assert [message["more_body"] for message in send.messages[:-1]] == [True]


async def test_what_is_due_together_leaves_together(wakeups: Wakeups) -> None:
    bench, send, stream = opened()
    for text in "abcdefgh":
        bench.engine.token(1, text)
    bench.engine.finish(1)
    await delivery_of(stream, send, wakeups).run()
    assert len(send.messages) == 1
    assert send.text.count("\n") == 8 + 3


@pytest.mark.parametrize("outcome", [Outcome.SHED, Outcome.ENGINE_LOST, Outcome.TIMEOUT_IDLE])
async def test_a_stream_that_ends_badly_never_sends_a_final_message(
    wakeups: Wakeups, outcome: Outcome
) -> None:
    # litellm#33404: a cut must not look like a stop.
    _bench, send, stream = opened()
    running = asyncio.ensure_future(delivery_of(stream, send, wakeups).run())
    await settle()
    stream.end(outcome)
    await running
    assert all(message["more_body"] for message in send.messages)
    assert str(outcome) in send.text


async def test_a_wake_sends_without_running_the_requests_task(wakeups: Wakeups) -> None:
    bench, send, stream = opened()
    delivery = delivery_of(stream, send, wakeups)
    running = asyncio.ensure_future(delivery.run())
    await settle()
    log = stream.log
    log.append(1, "x", token_count=1, time_ns=1)
    delivery.flush()
    assert '"text":"x"' in send.text
    bench.engine.finish(1)
    await running


async def test_a_reader_that_is_slow_suspends_only_itself_and_loses_nothing(
    wakeups: Wakeups,
) -> None:
    bench, send, stream = opened()
    running = asyncio.ensure_future(delivery_of(stream, send, wakeups).run())
    await settle()
    send.open.clear()
    for text in "abc":
        bench.engine.token(1, text)
        await settle()
    send.open.set()
    await settle()
    bench.engine.finish(1)
    await running
    lines = send.text.splitlines()
    assert [line for line in lines if '"token"' in line] == sorted(
        line for line in lines if '"token"' in line
    )
    assert sum('"token"' in line for line in lines) == 3


async def test_leaving_ends_the_delivery_while_it_waits(wakeups: Wakeups) -> None:
    _bench, send, stream = opened()
    delivery = delivery_of(stream, send, wakeups)
    running = asyncio.ensure_future(delivery.run())
    await settle()
    delivery.leave()
    await running
    assert send.messages == []


async def test_a_send_that_raises_in_a_wake_fails_the_request(wakeups: Wakeups) -> None:
    bench, send, stream = opened()
    running = asyncio.ensure_future(delivery_of(stream, send, wakeups).run())
    await settle()
    send.failure = OSError("gone")
    bench.engine.token(1, "a")
    with pytest.raises(OSError, match="gone"):
        await running


async def test_a_blocked_client_does_not_hold_a_worker_whose_time_is_up(wakeups: Wakeups) -> None:
    now = [0]
    bench, send, stream = opened()
    delivery = delivery_of(stream, send, wakeups, now=now)
    sweep = Deliveries(wakeups.notifier, deadline_ns=lambda: 2 * SECOND)
    sweep.add(delivery)
    running = asyncio.ensure_future(delivery.run())
    await settle()
    send.open.clear()
    bench.engine.token(1, "a")
    await settle()
    sweep.sweep(2 * SECOND - 1)
    await settle()
    assert not running.done()
    sweep.sweep(2 * SECOND)
    await running
    assert send.messages == []


async def test_a_blocked_client_is_given_up_after_its_time(wakeups: Wakeups) -> None:
    now = [0]
    bench, send, stream = opened()
    delivery = delivery_of(stream, send, wakeups, now=now)
    sweep = Deliveries(wakeups.notifier)
    sweep.add(delivery)
    running = asyncio.ensure_future(delivery.run())
    await settle()
    send.open.clear()
    bench.engine.token(1, "a")
    await settle()
    sweep.sweep(5 * SECOND)
    await settle()
    assert not running.done()
    sweep.sweep(5 * SECOND + 1)
    await running
    assert send.messages == []


async def test_a_cancelled_request_stays_cancelled(wakeups: Wakeups) -> None:
    _bench, send, stream = opened()
    running = asyncio.ensure_future(delivery_of(stream, send, wakeups).run())
    await settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_silence_is_filled_with_one_comment_and_the_stream_goes_on(wakeups: Wakeups) -> None:
    now = [0]
    bench, send, stream = opened()
    delivery = delivery_of(stream, send, wakeups, now=now)
    sweep = Deliveries(wakeups.notifier)
    sweep.add(delivery)
    running = asyncio.ensure_future(delivery.run())
    await settle()
    sweep.sweep(10 * SECOND - 1)
    assert send.messages == []
    now[0] = 10 * SECOND
    sweep.sweep(now[0])
    sweep.sweep(now[0])
    assert [message["body"] for message in send.messages] == [KEEP_ALIVE]
    bench.engine.token(1, "a")
    bench.engine.finish(1)
    await running
    assert send.text.startswith(":\n{")


async def test_a_reader_that_was_overrun_is_told_and_cut(wakeups: Wakeups) -> None:
    bench, send, stream = opened()
    running = asyncio.ensure_future(delivery_of(stream, send, wakeups).run())
    await settle()
    send.open.clear()
    bench.engine.token(1, "first")
    await settle()
    for _ in range(3):
        bench.engine.token(1, "x" * (1 << 19))
    send.open.set()
    await running
    assert send.messages[-1]["body"] == b"overrun"
    assert send.messages[-1]["more_body"]


async def test_sends_within_the_window_leave_together_and_the_first_at_once(
    wakeups: Wakeups,
) -> None:
    bench, send, now = Bench(), Sending(), [10 * SECOND]
    deliveries = Deliveries(
        wakeups.notifier,
        keep_alive_ns=None,
        blocked_send_ns=SECOND,
        coalesce_ns=1_000_000,
        clock=lambda: now[0],
    )
    stream = bench.started()
    stream.attach()
    delivery = delivery_of(stream, send, wakeups, now=now, postpone=deliveries.postpone)
    running = asyncio.ensure_future(delivery.run())
    await settle()
    bench.engine.token(1, "a")
    await settle()
    assert len(send.messages) == 1
    bench.engine.token(1, "b")
    bench.engine.token(1, "c")
    await settle()
    bench.engine.token(1, "d")
    bench.engine.finish(1)
    await running
    assert len(send.messages) == 2
    assert send.messages[1]["more_body"] is False
    assert send.text.count('"token"') == 4


async def test_who_watches_is_told_of_the_first_message_and_of_no_comment(
    wakeups: Wakeups,
) -> None:
    bench, send, stream = opened()
    begun: list[int] = []
    delivery = delivery_of(stream, send, wakeups, begun=lambda: begun.append(len(send.messages)))
    running = asyncio.ensure_future(delivery.run())
    await settle()
    delivery.keep_alive()
    await settle()
    assert send.text == KEEP_ALIVE.decode()
    assert begun == []
    for text in "ab":
        bench.engine.token(1, text)
        await settle()
    bench.engine.finish(1)
    await running
    assert begun == [1]


async def test_the_preface_is_the_first_message(wakeups: Wakeups) -> None:
    bench, send, stream = opened()
    begun: list[int] = []
    bench.engine.finish(1)
    told = delivery_of(stream, send, wakeups, preface=b"p", begun=lambda: begun.append(1))
    await told.run()
    assert send.text.startswith("p")
    assert begun == [1]
