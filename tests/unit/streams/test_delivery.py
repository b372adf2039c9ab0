"""Batches, back-pressure, leaving and giving up, over a ``send`` that the test holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from starlette.types import Message

from millstream._core import Encoder, Log, Reader
from millstream.store import Recording
from millstream.streams.deliveries import Deliveries
from millstream.streams.delivery import KEEP_ALIVE, MAX_SEND_BYTES, Delivery
from millstream.streams.frames import FrameReader
from millstream.streams.hub import Wakeups
from millstream.streams.stream import Stream
from millstream.types import Outcome
from tests.unit.streams.parts import SECOND, Bench


class Sending:
    """Finishes at once, or suspends while ``open`` is clear."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open = asyncio.Event()
        self.open.set()
        self.failure: Exception | None = None

    async def __call__(self, message: Message) -> None:
        if self.failure is not None:
            raise self.failure
        await self._room()
        self.messages.append(message)

    def _room(self) -> Awaitable[object]:
        return self.open.wait()

    @property
    def text(self) -> str:
        return b"".join(message["body"] for message in self.messages).decode()


@pytest.fixture
async def wakeups() -> AsyncIterator[Wakeups]:
    made = Wakeups()
    yield made
    made.close()


def reader_of(log: Log) -> Reader:
    encoder = Encoder(dialect="native", framing="ndjson", chunk_id="c", model="m", created=0)
    return Reader(log, encoder)


def delivery_of(
    stream: Stream | Recording,
    send: Sending,
    wakeups: Wakeups,
    *,
    now: list[int] | None = None,
    postpone: Callable[[Delivery], bool] | None = None,
    **options: Any,
) -> Delivery:
    clock = now or [0]
    given: dict[str, Any] = {
        "overrun": lambda _reader: b"overrun",
        "keep_alive_ns": 10 * SECOND,
        "blocked_send_ns": 5 * SECOND,
    }
    return Delivery(
        stream,
        reader_of(stream.log),
        send,
        notifier=wakeups.notifier,
        postpone=postpone,
        clock=lambda: clock[0],
        **given | options,
    )


def opened() -> tuple[Bench, Sending, Stream]:
    """A stream that the engine works on and one reader follows."""
    bench = Bench()
    stream = bench.started()
    stream.attach()
    return bench, Sending(), stream


async def settle() -> None:
    """Let everything that can run now run, descriptors included."""
    for _ in range(10):
        await asyncio.sleep(0)


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


@pytest.mark.parametrize("outcome", [Outcome.SHED, Outcome.CANCELLED])
async def test_a_dialect_that_says_how_it_ended_ends_properly(
    wakeups: Wakeups, outcome: Outcome
) -> None:
    _bench, send, stream = opened()
    running = asyncio.ensure_future(delivery_of(stream, send, wakeups, typed_end=True).run())
    await settle()
    stream.end(outcome)
    await running
    assert send.messages[-1]["more_body"] is False
    assert send.text.endswith(f'{{"event":"done","outcome":"{outcome}"}}\n')


async def test_a_preface_goes_before_everything(wakeups: Wakeups) -> None:
    bench, send, stream = opened()
    bench.engine.finish(1)
    await delivery_of(stream, send, wakeups, preface=b"first\n").run()
    assert send.text.startswith('first\n{"event":"finish"')


async def test_a_reader_that_may_skip_is_told_what_is_missing_and_goes_on(
    wakeups: Wakeups,
) -> None:
    bench, send, stream = opened()
    gaps: list[object] = []

    def overrun(reader: FrameReader) -> bytes:
        gaps.append(reader.gap)
        return b"gap\n"

    delivery = delivery_of(stream, send, wakeups, overrun=overrun, skips_gaps=True)
    running = asyncio.ensure_future(delivery.run())
    await settle()
    send.open.clear()
    bench.engine.token(1, "first")
    await settle()
    for _ in range(3):
        bench.engine.token(1, "x" * (1 << 19))
    send.open.set()
    await settle()
    bench.engine.finish(1)
    await running
    assert gaps == [(3, 4)]
    assert [line[:20] for line in send.text.splitlines()] == [
        '{"event":"token","ch',
        "gap",
        '{"event":"token","ch',
        '{"event":"token","ch',
        '{"event":"finish","c',
        '{"event":"usage","us',
        '{"event":"done","out',
    ]
    assert send.messages[-1]["more_body"] is False


async def test_a_stalled_client_costs_one_send_and_no_more(wakeups: Wakeups) -> None:
    # MAXeaglet/commandcode-proxy#20: 68 to 646 MB with one client that never reads.
    bench, send, stream = opened()
    running = asyncio.ensure_future(delivery_of(stream, send, wakeups).run())
    send.open.clear()
    text, sent = "x" * 1000, 0
    for _ in range(20):
        for _ in range(40):
            bench.engine.token(1, text)
        await settle()
    send.open.set()
    await settle()
    sent = max(len(message["body"]) for message in send.messages)
    assert MAX_SEND_BYTES <= sent < MAX_SEND_BYTES + 2 * len(text)
    bench.engine.finish(1)
    await running
    assert send.text.count('"token"') == 800


async def test_every_delivery_has_its_own_patience(wakeups: Wakeups) -> None:
    # ai-dynamo/dynamo#408: comments broke a client, so they can be off for one tenant alone.
    now = [20 * SECOND]
    bench, sweep = Bench(), Deliveries(wakeups.notifier)
    sends: list[Sending] = []
    tasks: list[asyncio.Task[None]] = []
    for interval in (None, 5 * SECOND, 30 * SECOND):
        stream, send = bench.started(request=len(sends) + 1), Sending()
        stream.attach()
        delivery = delivery_of(stream, send, wakeups, now=now, keep_alive_ns=interval)
        sweep.add(delivery)
        tasks.append(asyncio.ensure_future(delivery.run()))
        sends.append(send)
    await settle()
    sweep.sweep(now[0])
    assert [send.text for send in sends] == ["", ":\n", ""]
    for request in (1, 2, 3):
        bench.engine.finish(request)
    await asyncio.gather(*tasks)


async def test_a_recording_that_is_fed_from_elsewhere_is_delivered_as_it_grows(
    wakeups: Wakeups,
) -> None:
    descriptor = Bench().stream().descriptor
    source, mirror, send = Log(), Log(), Sending()
    recording = Recording(descriptor, mirror)
    recording.attach()
    running = asyncio.ensure_future(delivery_of(recording, send, wakeups).run())
    after = 0
    for text in "ab":
        source.append(1, text, token_count=1, time_ns=1)
        packed = source.pack(after)
        assert packed is not None
        after = mirror.unpack(packed[0])
        await settle()
        assert f'"text":"{text}"' in send.text
    source.close("completed", time_ns=1)
    packed = source.pack(after)
    assert packed is not None
    mirror.unpack(packed[0])
    await running
    assert send.messages[-1]["more_body"] is False
