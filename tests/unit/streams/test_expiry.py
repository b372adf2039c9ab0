"""A reader whose credential has expired, among others and on a slow line."""

from __future__ import annotations

import asyncio
import json

import pytest

from millstream.streams.deliveries import Deliveries
from millstream.streams.expiry import Expiry, expired_frame
from millstream.streams.hub import Wakeups
from millstream.streams.stream import Stream
from millstream.types import Outcome
from tests.unit.streams.delivered import Sending, delivery_of, opened, settle
from tests.unit.streams.parts import SECOND, Bench

FRAME = b"expired\n"
AT = SECOND


def expiring(
    stream: Stream, send: Sending, wakeups: Wakeups, *, typed_end: bool = False
) -> tuple[Deliveries, asyncio.Future[None]]:
    """A delivery that runs, and who looks at its time."""
    expiry = Expiry(AT, FRAME, stream.reader_expired)
    delivery = delivery_of(stream, send, wakeups, expiry=expiry, typed_end=typed_end)
    deliveries = Deliveries(wakeups.notifier, keep_alive_ns=None, clock=lambda: 0)
    deliveries.add(delivery)
    deliveries.expire(delivery, expiry.at_ns, delivery.cut)
    return deliveries, asyncio.ensure_future(delivery.run())


async def test_the_only_reader_of_a_plain_stream_drains_to_its_end(wakeups: Wakeups) -> None:
    _bench, send, stream = opened()
    deliveries, running = expiring(stream, send, wakeups)
    await settle()
    deliveries.sweep(AT - 1)
    assert not stream.lifecycle.ended
    deliveries.sweep(AT)
    await running
    assert stream.outcome is Outcome.CANCELLED
    assert FRAME.decode() not in send.text
    error, done = [json.loads(line) for line in send.text.splitlines()]
    assert (error["error"]["code"], done["outcome"]) == ("credential_expired", "cancelled")
    assert all(message["more_body"] for message in send.messages)


async def test_with_another_reader_the_stream_goes_on_without_the_one(wakeups: Wakeups) -> None:
    bench, send, stream = opened()
    stream.attach()
    deliveries, running = expiring(stream, send, wakeups)
    await settle()
    deliveries.sweep(AT)
    await running
    assert (send.text, stream.outcome) == (FRAME.decode(), None)
    bench.engine.token(1, "later")
    assert stream.log.error is None


@pytest.mark.parametrize("grace_ns", [SECOND, None])
async def test_a_stream_that_outlives_its_readers_only_loses_this_one(
    wakeups: Wakeups, grace_ns: int | None
) -> None:
    bench, send = Bench(), Sending()
    stream = bench.started(grace_ns=grace_ns)
    stream.attach()
    deliveries, running = expiring(stream, send, wakeups)
    bench.engine.token(1, "before")
    await settle()
    deliveries.sweep(AT)
    await running
    assert send.text.endswith(FRAME.decode())
    assert '"before"' in send.text
    assert stream.outcome is None


@pytest.mark.parametrize("typed_end", [False, True])
async def test_only_a_dialect_that_says_how_it_ends_ends_properly(
    wakeups: Wakeups, typed_end: bool
) -> None:
    bench, send = Bench(), Sending()
    stream = bench.started(grace_ns=SECOND)
    deliveries, running = expiring(stream, send, wakeups, typed_end=typed_end)
    await settle()
    deliveries.sweep(AT)
    await running
    assert send.messages[-1]["more_body"] is not typed_end


async def test_a_send_under_way_is_let_finish_and_the_error_follows(wakeups: Wakeups) -> None:
    bench, send = Bench(), Sending()
    stream = bench.started(grace_ns=SECOND)
    send.open.clear()
    deliveries, running = expiring(stream, send, wakeups)
    bench.engine.token(1, "slow")
    await settle()
    deliveries.sweep(AT)
    bench.engine.token(1, "too late")
    send.open.set()
    await running
    assert '"slow"' in send.text
    assert "too late" not in send.text
    assert send.text.endswith(FRAME.decode())


async def test_a_client_that_does_not_even_read_is_given_up_with_the_next_sweep(
    wakeups: Wakeups,
) -> None:
    bench, send = Bench(), Sending()
    stream = bench.started(grace_ns=SECOND)
    send.open.clear()
    deliveries, running = expiring(stream, send, wakeups)
    bench.engine.token(1, "unread")
    await settle()
    deliveries.sweep(AT)
    await settle()
    assert not running.done()
    deliveries.sweep(AT + 1)
    await running
    assert send.text == ""


async def test_who_left_before_is_not_cut(wakeups: Wakeups) -> None:
    called: list[int] = []
    deliveries = Deliveries(wakeups.notifier)
    owner = object()
    deliveries.expire(owner, AT, lambda: called.append(1))
    deliveries.forget(owner)
    deliveries.forget(owner)
    deliveries.sweep(2 * AT)
    assert called == []


async def test_a_branch_whose_engine_has_said_what_is_wrong_keeps_that(wakeups: Wakeups) -> None:
    bench = Bench()
    stream = bench.started(branches=2)
    stream.attach()
    error = '{"message":"m","type":"t","param":null,"code":"c"}'
    bench.engine.fail(1, error)
    assert stream.reader_expired()
    assert stream.log.error_of(0) == error
    assert json.loads(stream.log.error_of(1) or "")["code"] == "credential_expired"
    assert not stream.reader_expired()


def test_out_of_band_every_dialect_has_its_own_error() -> None:
    assert expired_frame("chat", "sse").startswith(b'data: {"error":{"message":')
    assert expired_frame("completion", "ndjson").startswith(b'{"error":{"message":')
    assert expired_frame("native", "sse").startswith(b'event: error\ndata: {"error":{')
    assert expired_frame("native", "ndjson").startswith(b'{"event":"error","error":{')
    assert expired_frame("responses", "sse").startswith(b'event: error\ndata: {"type":"error"')
    assert expired_frame("responses", "ndjson").startswith(b'{"type":"error","code":')
    for framing, end in (("sse", b"}\n\n"), ("ndjson", b"}\n")):
        assert expired_frame("native", framing).endswith(end)  # type: ignore[arg-type]
