"""What one delivery does otherwise than another: its end, its gaps, its patience."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from millstream._core import Log
from millstream.store import Recording
from millstream.streams.deliveries import Deliveries
from millstream.streams.delivery import MAX_SEND_BYTES
from millstream.streams.encoding import encoder_for
from millstream.streams.frames import FrameReader, SnapshotReader
from millstream.streams.hub import Wakeups
from millstream.types import Outcome
from tests.unit.streams.delivered import Sending, delivery_of, opened, settle
from tests.unit.streams.parts import SECOND, Bench


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


async def test_a_native_reader_that_was_left_behind_gets_the_text_and_goes_on(
    wakeups: Wakeups,
) -> None:
    bench, send, stream = opened()
    reader = SnapshotReader(
        stream,
        encoder_for(stream.descriptor, dialect="native", framing="ndjson"),
        after=0,
        dialect="native",
        framing="ndjson",
    )
    delivery = delivery_of(stream, send, wakeups, reader=reader)
    running = asyncio.ensure_future(delivery.run())
    await settle()
    send.open.clear()
    bench.engine.token(1, "first")
    await settle()
    for letter in "abc":
        bench.engine.token(1, letter * (1 << 19))
    send.open.set()
    await settle()
    bench.engine.token(1, "last")
    bench.engine.finish(1)
    await running
    events = [msgspec.json.decode(line) for line in send.text.splitlines()]
    assert [event["event"] for event in events] == [
        "token",
        "gap",
        "token",
        "finish",
        "usage",
        "done",
    ]
    assert events[1]["missing"] == {"first": 2, "last": 2}
    (text,) = events[1]["text"]
    assert text["text"].endswith("c")
    assert text["omitted_bytes"] + len(text["text"]) == len("first") + 3 * (1 << 19)
    assert events[2]["text"] == "last"
