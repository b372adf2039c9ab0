"""Streams read in another worker than the one that produces them."""

from __future__ import annotations

import asyncio
import random

import pytest

from millstream.errors import StoreUnavailable
from millstream.store.valkey import mirrors
from millstream.types import Kind, Settlement
from tests.integration.valkey_server import ValkeyServer
from tests.integration.valkey_stores import Producer, Workers, ended, found, frames, stored
from tests.unit.store.recordings import finish, recording, write
from tests.waiting import until_true


async def test_another_worker_reads_what_is_there_and_what_comes(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    stream = recording("a", "one ", "two ")
    here.publish(stream, Producer())
    await stored(valkey, stream)
    mirror = await found(there, "a")
    assert (mirror.log.text(), mirror.outcome) == ("one two ", None)
    assert mirror.descriptor == stream.descriptor
    write(stream, *(f"{number} " for number in range(500)))
    here.keep(finish(stream))
    await ended(mirror)
    assert mirror.outcome == "completed"
    assert frames(mirror) == frames(stream)


async def test_another_worker_knows_what_the_stream_was_charged(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    settlement = Settlement(charged=9, reserved=40, partial=False, remaining_tokens=7)
    stream = recording("a", "one ")
    here.publish(stream, Producer())
    here.keep(finish(stream, settlement))
    await stored(valkey, stream)
    mirror = await found(there, "a")
    await ended(mirror)
    assert (mirror.outcome, mirror.settlement) == ("completed", settlement)
    # Whoever only asks how it ended is told the word.
    assert valkey.client.hget("ms:{a}", "outcome") == b"completed"


async def test_every_reader_gets_every_record_once_wherever_it_joins(
    workers: Workers, valkey: ValkeyServer
) -> None:
    rng = random.Random(5)
    here = await workers.open(flush_ms=1)
    stream = recording("a", integrity=True)
    here.publish(stream, Producer())
    read = []
    for number in range(40):
        write(stream, *(f"{number}.{index} " for index in range(rng.randrange(30))))
        if number % 8 == 4:
            await asyncio.sleep(rng.random() / 50)
            cursor = stream.log.tail
            await stored(valkey, stream)
            read.append((await found(await workers.open(), "a"), cursor))
            assert read[-1][0].log.tail >= cursor
    here.keep(finish(stream))
    assert len(read) == 5
    for mirror, cursor in read:
        await ended(mirror)
        assert frames(mirror) == frames(stream)
        assert frames(mirror, cursor) == frames(stream, cursor)
        assert mirror.log.checks() == stream.log.checks()
        assert mirror.log.leaves() == stream.log.leaves()


async def test_all_readers_of_a_process_share_a_mirror_and_all_mirrors_share_a_read(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    streams = [recording(f"s{number}", "text") for number in range(50)]
    for stream in streams:
        here.publish(stream, Producer())
    for stream in streams:
        await stored(valkey, stream)
    pairs = await asyncio.gather(*(there.find(one.id) for one in streams for _ in range(2)))
    assert all(pair is not None for pair in pairs)
    assert all(pairs[index] is pairs[index + 1] for index in range(0, 100, 2))
    for stream in streams:
        write(stream, " more")
        here.keep(finish(stream))
    for mirror in pairs[::2]:
        assert mirror is not None
        await ended(mirror)
        assert mirror.log.text() == "text more"
    readers = [one for one in valkey.client.client_list() if one["cmd"] == "xread"]
    assert len(readers) == 2


async def test_a_stream_that_has_ended_is_read_in_a_worker_that_came_later(
    workers: Workers, valkey: ValkeyServer
) -> None:
    # vercel/resumable-stream#44, #47: only the producer's memory had it.
    here = await workers.open()
    stream = recording("a", *("word " for _ in range(3000)), retention_seconds=30)
    here.publish(stream, Producer())
    here.keep(finish(stream))
    await workers.leave(here)
    late = await workers.open()
    mirror = await found(late, "a")
    assert mirror.log.closed
    assert frames(mirror) == frames(stream)
    for key in ("ms:{a}", "ms:{a}:log"):
        assert 0 < valkey.client.pttl(key) <= 30_000
    assert not valkey.client.keys("ms:owner:*") or len(valkey.client.keys("ms:owner:*")) == 1


async def test_a_stream_is_gone_when_its_retention_is(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    stream = recording("a", "text", retention_seconds=1)
    here.publish(stream, Producer())
    here.keep(finish(stream))
    await until_true(lambda: valkey.client.hexists("ms:{a}", "outcome"))
    await until_true(lambda: not valkey.client.exists("ms:{a}", "ms:{a}:log"))
    assert await there.find("a") is None
    assert await here.find("a") is None
    for name in ("never", "", "ä", "\udc80", "x" * 10_000):
        assert await there.find(name) is None
        assert not await there.cancel(name, None)


async def test_a_stream_of_a_version_that_is_not_understood_is_not_shown(
    workers: Workers, valkey: ValkeyServer
) -> None:
    valkey.client.hset("ms:{a}", mapping={"descriptor": '{"id":"a"}', "owner": "o"})
    with pytest.raises(StoreUnavailable):
        await (await workers.open()).find("a")


async def test_a_live_stream_would_not_outlive_its_worker_for_ever(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here = await workers.open()
    stream = recording("a", "text", retention_seconds=600)
    here.publish(stream, Producer())
    await stored(valkey, stream)
    for key in ("ms:{a}", "ms:{a}:log"):
        assert 600_000 < valkey.client.pttl(key) <= 800_000


async def test_a_log_whose_beginning_went_for_want_of_room_says_so(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(max_entries=16), await workers.open()
    stream = recording("a")
    here.publish(stream, Producer())
    for number in range(40):
        write(stream, *(f"{number}.{index} " for index in range(8)))
        await stored(valkey, stream)
    assert valkey.client.xlen("ms:{a}:log") == 16
    mirror = await found(there, "a")
    assert mirror.log.tail == 320
    assert 1 < mirror.log.oldest < 320
    before = mirror.log.oldest - 1
    here.keep(finish(stream))
    await ended(mirror)
    assert frames(mirror, before) == frames(stream, before)


async def test_a_mirror_that_nobody_reads_is_let_go_and_one_that_is_read_stays(
    workers: Workers, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "LINGER_NS", 200_000_000)
    here, there = await workers.open(), await workers.open()
    streams = {name: recording(name, "text") for name in ("read", "left")}
    for stream in streams.values():
        here.publish(stream, Producer())
        await stored(valkey, stream)
    read, left = await found(there, "read"), await found(there, "left")
    read.attach()
    left.attach()
    left.detach()
    await until_true(lambda: len(there._mirrors) == 1)
    assert await there.find("read") is read
    assert await there.find("left") is not left
    read.detach()
    await until_true(lambda: len(there._mirrors) == 0)


async def test_an_entry_holds_what_has_gathered_and_waits_no_longer_than_it_may(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here = await workers.open(flush_ms=10_000)
    stream = recording("a", "first")
    here.publish(stream, Producer())
    await stored(valkey, stream)
    write(stream, *("x" for _ in range(7)))
    await asyncio.sleep(0.1)
    assert valkey.client.xlen("ms:{a}:log") == 1
    write(stream, "x")
    await stored(valkey, stream)
    assert [name for name, _ in valkey.client.xrange("ms:{a}:log")] == [b"1-1", b"1-9"]


async def test_streams_of_several_branches_keep_them_apart(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    stream = recording("a", branches=2)
    here.publish(stream, Producer())
    for branch, text in ((0, "zero"), (1, "one"), (0, " zero"), (1, " one")):
        stream.log.append(Kind.TOKEN, text, branch=branch, token_count=1, time_ns=1)
    here.keep(finish(stream))
    mirror = await found(there, "a")
    await ended(mirror)
    assert [mirror.log.text(branch=branch) for branch in (0, 1)] == ["zero zero", "one one"]


async def test_what_is_written_when_a_worker_leaves_is_all_there(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here = await workers.open(flush_ms=10_000)
    streams = [recording(f"s{number}", *("x " for _ in range(700))) for number in range(30)]
    for stream in streams:
        here.publish(stream, Producer())
        here.keep(finish(stream))
    await workers.leave(here)
    there = await workers.open()
    for stream in streams:
        assert frames(await found(there, stream.id)) == frames(stream)
