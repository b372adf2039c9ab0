"""A stream that a client deletes is gone for every worker."""

from __future__ import annotations

import asyncio

import pytest

from millstream.store import Claim, IdempotencyKey
from millstream.store.valkey import ValkeyStore, mirrors, outgoing
from tests.integration.valkey_server import ValkeyServer
from tests.integration.valkey_stores import Producer, Workers, found
from tests.unit.store.recordings import finish, recording
from tests.waiting import HANG_SECONDS, until_true

KEY = IdempotencyKey("acme", "key")


@pytest.fixture(autouse=True)
def linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that nobody reads goes soon: it does after five seconds otherwise."""
    monkeypatch.setattr(mirrors, "LINGER_NS", 200_000_000)


async def gone(store: ValkeyStore, stream_id: str) -> None:
    """Return when the store no longer shows it."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            if await store.find(stream_id) is None:
                return
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("by_its_maker", [True, False])
async def test_a_discarded_stream_is_gone_everywhere_and_its_key_is_free(
    workers: Workers, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch, by_its_maker: bool
) -> None:
    # Nobody reads it, who would need the five seconds.
    monkeypatch.setattr(outgoing, "FORGOTTEN_MS", 200)
    here, there = await workers.open(), await workers.open()
    assert await here.claim(KEY, Claim("a", "f"), ttl_seconds=60) is None
    stream = recording("a", "text")
    here.publish(stream, Producer())
    here.keep(finish(stream))
    await until_true(lambda: valkey.client.hexists("ms:{a}", "outcome"))
    discarding = here if by_its_maker else there
    if not by_its_maker:
        await found(there, "a")
    await discarding.discard("a")
    assert await discarding.find("a") is None
    await gone(here, "a")
    await gone(there, "a")
    await until_true(lambda: not valkey.client.keys("ms:{a}*"))
    await until_true(lambda: not valkey.client.keys("ms:claim:*"))
    assert await there.claim(KEY, Claim("b", "f"), ttl_seconds=60) is None


async def test_asking_again_and_again_keeps_no_copy_of_a_discarded_stream(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    stream = recording("a", "text")
    here.publish(stream, Producer())
    here.keep(finish(stream))
    await until_true(lambda: valkey.client.hexists("ms:{a}", "outcome"))
    await found(there, "a")
    await here.discard("a")
    await gone(there, "a")


async def test_a_stream_that_is_discarded_before_it_is_written_does_not_come_back(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    for number in range(50):
        stream = recording(f"s{number}", *["text"] * 20)
        here.publish(stream, Producer())
        await asyncio.sleep(0)
        here.keep(finish(stream))
        await here.discard(stream.id)
    later = recording("later", "text")
    here.publish(later, Producer())
    here.keep(finish(later))
    await until_true(lambda: valkey.client.hexists("ms:{later}", "outcome"))
    for number in range(50):
        assert await here.find(f"s{number}") is None
        assert await there.find(f"s{number}") is None


async def test_discarding_twice_changes_nothing(workers: Workers) -> None:
    here = await workers.open()
    stream = recording("a", "text")
    here.publish(stream, Producer())
    here.keep(finish(stream))
    await here.discard("a")
    await here.discard("a")
    await here.discard("never")
    assert await here.find("a") is None


async def test_who_reads_a_discarded_stream_elsewhere_is_told_how_it_really_ended(
    workers: Workers, valkey: ValkeyServer
) -> None:
    # A reader at another worker waited for two leases, and heard that the producer was lost.
    here, there = await workers.open(), await workers.open()
    streams = [recording(f"s{number}", "text") for number in range(20)]
    read = []
    for stream in streams:
        here.publish(stream, Producer())
        read.append(await found(there, stream.id))
        read[-1].attach()
    for stream in streams:
        here.keep(finish(stream))
        await here.discard(stream.id)
    await until_true(lambda: all(mirror.log.closed for mirror in read))
    assert [mirror.outcome for mirror in read] == [stream.outcome for stream in streams]
    await until_true(lambda: not valkey.client.keys("ms:{s*"))


async def test_whoever_asks_again_and_again_for_a_discarded_stream_hears_that_it_is_gone(
    workers: Workers,
) -> None:
    # It was shown for as long as somebody asked, far beyond its retention too.
    first, second, third = [await workers.open() for _ in range(3)]
    stream = recording("a", "text")
    first.publish(stream, Producer())
    first.keep(finish(stream))
    await found(third, "a")
    await second.discard("a")
    await gone(third, "a")
