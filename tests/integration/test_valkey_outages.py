"""The server is not there, goes away, comes back with or without what it had, or is slow."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from millstream.errors import StoreUnavailable
from millstream.store import Claim, IdempotencyKey
from millstream.store.valkey import connection, store, writer
from tests.integration.valkey_server import ValkeyServer
from tests.integration.valkey_stores import (
    SHORT,
    Observed,
    Producer,
    Workers,
    ended,
    found,
    frames,
    stored,
)
from tests.unit.store.recordings import finish, recording, write
from tests.waiting import HANG_SECONDS, until_true


@pytest.fixture(autouse=True)
def _lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "millstream.store")


@pytest.fixture
async def workers(own_valkey: ValkeyServer) -> AsyncIterator[Workers]:
    workers = Workers(own_valkey)
    yield workers
    own_valkey.start()
    await workers.close()


@pytest.fixture
async def durable_workers(durable_valkey: ValkeyServer) -> AsyncIterator[Workers]:
    workers = Workers(durable_valkey)
    yield workers
    await workers.close()


def lines(caplog: pytest.LogCaptureFixture, event: str) -> int:
    return [record.getMessage() for record in caplog.records].count(event)


async def test_a_worker_that_starts_without_the_server_serves_and_stores_once_it_is_there(
    workers: Workers, own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    own_valkey.kill()
    observed = Observed()
    here = await workers.open(observed=observed)
    stream = recording("a", "text")
    here.publish(stream, Producer())
    await until_true(lambda: observed.ups == [False])
    here.keep(finish(stream))
    kept = await here.find("a")
    assert kept is not None
    assert kept.log.text() == "text"
    with pytest.raises(StoreUnavailable):
        await here.find("b")
    with pytest.raises(StoreUnavailable):
        await here.cancel("b", None)
    with pytest.raises(StoreUnavailable):
        await here.claim(IdempotencyKey("t", "k"), Claim("b", ""), ttl_seconds=60)
    with pytest.raises(StoreUnavailable):
        await here.claimed(IdempotencyKey("t", "k"))
    assert lines(caplog, "store_down") == 1
    own_valkey.start()
    await stored(own_valkey, stream)
    assert (observed.ups, lines(caplog, "store_up")) == ([False, True], 1)
    assert frames(await found(await workers.open(), "a")) == frames(stream)
    assert set(observed.errors) >= {"write", "read"}


@pytest.mark.parametrize("ends", [True, False], ids=["ended meanwhile", "goes on"])
async def test_a_server_that_comes_back_empty_is_given_everything_again(
    workers: Workers, own_valkey: ValkeyServer, ends: bool
) -> None:
    here = await workers.open()
    there = await workers.open()
    stream = recording("a", *(f"{number} " for number in range(100)), integrity=True)
    here.publish(stream, Producer())
    await stored(own_valkey, stream)
    mirror = await found(there, "a")
    own_valkey.kill()
    write(stream, *(f"{number} " for number in range(100, 203)))
    if ends:
        here.keep(finish(stream))
    await until_true(lambda: here.health.up is False and there.health.up is False)
    own_valkey.start()
    await stored(own_valkey, stream)
    if not ends:
        write(stream, "last")
        here.keep(finish(stream))
    await ended(mirror)
    assert frames(mirror) == frames(stream)
    late = await found(await workers.open(), "a")
    await ended(late)
    assert frames(late) == frames(stream)
    assert late.log.checks() == stream.log.checks()


async def test_a_server_that_comes_back_with_its_data_gets_what_it_lacks_and_nothing_twice(
    durable_workers: Workers, durable_valkey: ValkeyServer
) -> None:
    here = await durable_workers.open()
    there = await durable_workers.open()
    streams = [recording(f"s{number}", "0 ") for number in range(20)]
    for stream in streams:
        here.publish(stream, Producer())
    for stream in streams:
        await stored(durable_valkey, stream)
    mirrors = [await found(there, stream.id) for stream in streams]
    for number in range(1, 5):
        for _ in range(number * 10):  # the server dies wherever the writer is then
            for stream in streams:
                write(stream, f"{number} ")
            await asyncio.sleep(0.002)
        durable_valkey.kill()
        for stream in streams:
            write(stream, *(f"{number} " for _ in range(50)))
        durable_valkey.start()
    for stream, mirror in zip(streams, mirrors, strict=True):
        here.keep(finish(stream))
        await ended(mirror)
        assert frames(mirror) == frames(stream)
        names = [name for name, _ in durable_valkey.client.xrange(f"ms:{{{stream.id}}}:log")]
        assert len(names) == len(set(names))
        assert all(name.startswith(b"1-") for name in names)


async def test_replies_that_never_come_cost_no_record_and_double_none(
    workers: Workers, own_valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = await workers.open(), await workers.open()
    send, sent = here._writer._connection.send, 0

    async def losing(*arguments: Any, **more: Any) -> list[Any]:
        nonlocal sent
        replies = await send(*arguments, **more)
        sent += 1
        if sent % 2:
            raise StoreUnavailable
        return replies

    monkeypatch.setattr(here._writer._connection, "send", losing)
    monkeypatch.setattr(writer, "REFUSED_SECONDS", 0.0)
    stream = recording("a", integrity=True)
    here.publish(stream, Producer())
    mirror = None
    for number in range(60):
        write(stream, *(f"{number} " for _ in range(number % 5)))
        await asyncio.sleep(0.01)
        mirror = mirror or await there.find("a")
    monkeypatch.undo()
    here.keep(finish(stream))
    assert mirror is not None
    await ended(mirror)
    assert sent > 4
    assert frames(mirror) == frames(stream)
    assert mirror.log.checks() == stream.log.checks()


async def test_what_was_flushed_away_behind_its_back_is_written_again(
    workers: Workers, own_valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    stream = recording("a", *("x" for _ in range(50)))
    here.publish(stream, Producer())
    await stored(own_valkey, stream)
    own_valkey.client.flushall()
    write(stream, *("y" for _ in range(50)))
    await stored(own_valkey, stream)
    assert (await found(there, "a")).log.text() == "x" * 50 + "y" * 50


async def test_a_server_that_answers_late_loses_nothing_and_holds_nobody_up(
    workers: Workers, own_valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CALL_SECONDS", 0.3)
    observed = Observed()
    here = await workers.open(observed=observed)
    there = await workers.open()
    stream = recording("a", "0 ")
    here.publish(stream, Producer())
    await stored(own_valkey, stream)
    mirror = await found(there, "a")
    for frozen_seconds in (0.05, 1.5):
        own_valkey.freeze()
        began = time.monotonic()
        while time.monotonic() - began < frozen_seconds:
            write(stream, f"{time.monotonic() - began} ")
            await asyncio.sleep(0.02)
        own_valkey.thaw()
        await stored(own_valkey, stream)
    assert False in observed.ups
    await until_true(lambda: observed.ups[-1])
    here.keep(finish(stream))
    await ended(mirror)
    assert frames(mirror) == frames(stream)


async def test_a_worker_that_leaves_while_the_server_is_away_leaves_in_time(
    workers: Workers,
    own_valkey: ValkeyServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "CLOSE_SECONDS", 0.3)
    here = await workers.open()
    here.publish(recording("a", "text"), Producer())
    own_valkey.kill()
    async with asyncio.timeout(HANG_SECONDS):
        await workers.leave(here)
    assert lines(caplog, "streams_not_stored") == 1


async def test_ended_streams_wait_for_the_server_within_the_memory_they_may_take(
    workers: Workers, own_valkey: ValkeyServer
) -> None:
    here = await workers.open(max_retained_bytes=1 << 20)
    half = recording("half", "x")
    here.publish(half, Producer())
    await stored(own_valkey, half)
    own_valkey.kill()
    await until_true(lambda: here.health.up is False)
    streams = [half, *(recording(f"s{number}") for number in range(20))]
    for stream in streams:
        if stream is not half:
            here.publish(stream, Producer())
        write(stream, "x" * 200_000)
        here.keep(finish(stream))
    assert len(here._writer) <= 5
    own_valkey.start()
    await stored(own_valkey, streams[-1])
    there = await workers.open()
    assert frames(await found(there, "s19")) == frames(streams[-1])
    # It could not be finished, so nothing is left of it: nobody waits for its end.
    assert await there.find("half") is None


async def test_what_waits_for_a_stream_that_nobody_has_any_more_is_told_so(
    workers: Workers, own_valkey: ValkeyServer
) -> None:
    # assistant-ui#3979: the time to live passed while a reader waited, which hung.
    here, there = await workers.open(lease_seconds=SHORT), await workers.open(lease_seconds=SHORT)
    stream = recording("a", "text")
    here.publish(stream, Producer())
    await stored(own_valkey, stream)
    mirror = await found(there, "a")
    own_valkey.kill()
    here._writer._outgoing.clear()
    own_valkey.start()
    await ended(mirror)
    assert mirror.outcome == "engine_lost"
    assert '"code":"store_lost"' in str(mirror.log.error)
    assert await there.find("a") is None


async def test_ended_streams_wait_for_a_server_that_refuses_within_their_memory_too(
    workers: Workers, own_valkey: ValkeyServer
) -> None:
    here = await workers.open(max_retained_bytes=1 << 20)
    own_valkey.client.config_set("maxmemory", 1)
    for number in range(20):
        stream = recording(f"s{number}", "x" * 200_000)
        here.publish(stream, Producer())
        await until_true(lambda: here._writer.stuck)
        here.keep(finish(stream))
    assert len(here._writer) <= 5
    own_valkey.client.config_set("maxmemory", 0)
    await stored(own_valkey, stream)


async def test_a_server_that_refuses_to_write_is_told_and_written_to_when_it_takes_it(
    workers: Workers, own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    observed = Observed()
    here = await workers.open(observed=observed)
    stream = recording("a", "text")
    own_valkey.client.config_set("maxmemory", 1)
    here.publish(stream, Producer())
    await until_true(lambda: "write" in observed.errors)
    write(stream, " more")
    own_valkey.client.config_set("maxmemory", 0)
    await stored(own_valkey, stream)
    assert lines(caplog, "store_refuses") == 1
    assert (await found(await workers.open(), "a")).log.text() == "text more"


async def test_a_caller_that_gives_up_takes_no_reply_from_the_next(
    workers: Workers, own_valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    for name in "abcdef":
        stream = recording(name, name)
        here.publish(stream, Producer())
        await stored(own_valkey, stream)
    for name in "abcdef":
        given_up = asyncio.create_task(there.cancel(name, None))
        await asyncio.sleep(0)
        given_up.cancel()
        mirror = await found(there, name)
        assert (mirror.id, mirror.log.text()) == (name, name)
    assert there.health.failures == 0
