"""What workers ask of each other, and who holds an idempotency key."""

from __future__ import annotations

import asyncio

from millstream.store import Claim, IdempotencyKey
from tests.integration.valkey_server import ValkeyServer
from tests.integration.valkey_stores import Producer, Workers, found, stored
from tests.unit.store.recordings import finish, recording
from tests.waiting import until_true

KEY = IdempotencyKey("acme", "key")


async def test_a_stream_is_cancelled_from_another_worker(
    workers: Workers, valkey: ValkeyServer
) -> None:
    # vercel/ai#6502, #18458: stop() did not stop a resumed stream.
    here, there = await workers.open(), await workers.open()
    producer, stream = Producer(), recording("a", "text")
    here.publish(stream, producer)
    await stored(valkey, stream)
    assert await there.cancel("a", None)
    assert await there.cancel("a", 3)
    await until_true(lambda: producer.cancelled == [None, 3])


async def test_there_is_nobody_to_cancel_what_has_ended_or_never_was(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    producer, stream = Producer(), recording("a", "text")
    here.publish(stream, producer)
    here.keep(finish(stream))
    await until_true(lambda: valkey.client.hexists("ms:{a}", "outcome"))
    assert not await there.cancel("a", None)
    assert not await there.cancel("never", None)
    live = recording("b", "text")
    here.publish(live, producer)
    await stored(valkey, live)
    await workers.leave(here)
    assert not await there.cancel("b", None)
    assert producer.cancelled == []


async def test_the_producer_hears_that_its_stream_is_read_elsewhere_and_until_when(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    producers = {name: Producer() for name in ("read", "found")}
    for name, producer in producers.items():
        stream = recording(name, "text")
        here.publish(stream, producer)
        await stored(valkey, stream)
    mirror = await found(there, "read")
    await found(there, "found")
    mirror.attach()
    await until_true(lambda: producers["read"].watches >= 3)
    mirror.detach()
    await asyncio.sleep(0.1)  # what is under way arrives
    watches = producers["read"].watches
    await asyncio.sleep(1.2)
    assert producers["read"].watches == watches
    assert producers["found"].watches == 0


async def test_a_producer_that_fails_to_cancel_costs_no_other_its_message(
    workers: Workers, valkey: ValkeyServer
) -> None:
    class Failing(Producer):
        def cancel(self, branch: int | None) -> None:
            raise RuntimeError("no")

    here, there = await workers.open(), await workers.open()
    streams, producers = [recording("a", "x"), recording("b", "x")], [Failing(), Producer()]
    for stream, producer in zip(streams, producers, strict=True):
        here.publish(stream, producer)
        await stored(valkey, stream)
        assert await there.cancel(stream.id, None)
    await until_true(lambda: producers[1].cancelled == [None])


async def test_a_message_from_another_version_is_passed_over(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    producer, stream = Producer(), recording("a", "text")
    here.publish(stream, producer)
    await stored(valkey, stream)
    valkey.client.xadd(f"ms:control:{here.process}", {"m": b'{"type":"news"}'})
    assert await there.cancel("a", None)
    await until_true(lambda: producer.cancelled == [None])


async def test_of_many_who_claim_a_key_at_once_in_several_workers_one_gets_it(
    workers: Workers,
) -> None:
    # mastodon#37879, grape-idempotency#10: two posts at once made two.
    stores = [await workers.open() for _ in range(3)]
    claims = [Claim(f"s{number}", "print") for number in range(30)]
    answers = await asyncio.gather(
        *(
            stores[number % 3].claim(KEY, claim, ttl_seconds=60)
            for number, claim in enumerate(claims)
        )
    )
    won = [claim for claim, answer in zip(claims, answers, strict=True) if answer is None]
    assert len(won) == 1
    assert {answer for answer in answers if answer is not None} == set(won)
    other = IdempotencyKey("other", KEY.key)
    assert await stores[0].claim(other, claims[0], ttl_seconds=60) is None


async def test_a_key_lasts_as_long_as_its_stream(workers: Workers, valkey: ValkeyServer) -> None:
    here, there = await workers.open(), await workers.open()
    claim, next_claim = Claim("a", "print"), Claim("b", "print")
    assert await here.claim(KEY, claim, ttl_seconds=0.5) is None
    stream = recording("a", "text", retention_seconds=1)
    here.publish(stream, Producer())
    await stored(valkey, stream)
    (key,) = valkey.client.keys("ms:claim:*")
    assert valkey.client.pttl(key) > 2_000
    here.keep(finish(stream))
    await until_true(lambda: 0 < valkey.client.pttl(key) <= 1_000)
    assert await there.claim(KEY, next_claim, ttl_seconds=60) == claim
    await until_true(lambda: not valkey.client.exists(key))
    assert await there.claim(KEY, next_claim, ttl_seconds=60) is None


async def test_who_asks_for_a_key_learns_of_it_in_every_worker_and_leaves_it(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    assert await there.claimed(KEY) is None
    assert await here.claim(KEY, Claim("a", "print"), ttl_seconds=60) is None
    (key,) = valkey.client.keys("ms:claim:*")
    valkey.client.persist(key)
    for store in (here, there):
        assert await store.claimed(KEY) == Claim("a", "print")
        assert await store.claimed(IdempotencyKey("other", KEY.key)) is None
    assert valkey.client.pttl(key) == -1


async def test_a_key_whose_stream_never_came_is_free_again_for_all(workers: Workers) -> None:
    here, there = await workers.open(), await workers.open()
    await here.claim(KEY, Claim("a", "print"), ttl_seconds=60)
    await here.release(KEY, "another")
    assert await there.claim(KEY, Claim("b", "print"), ttl_seconds=60) == Claim("a", "print")
    await here.release(KEY, "a")
    assert await there.claim(KEY, Claim("b", "print"), ttl_seconds=60) is None
    await here.release(KEY, "a")
    assert await here.claim(KEY, Claim("c", "print"), ttl_seconds=60) == Claim("b", "print")
    # Whoever finds that a key leads nowhere may free it: the worker that took it may be dead.
    await here.release(KEY, "b")
    assert await here.claim(KEY, Claim("c", "print"), ttl_seconds=60) is None


async def test_a_key_without_a_stream_goes_by_its_time(
    workers: Workers, valkey: ValkeyServer
) -> None:
    here, there = await workers.open(), await workers.open()
    await here.claim(KEY, Claim("a", "print"), ttl_seconds=0.1)

    (key,) = valkey.client.keys("ms:claim:*")
    await until_true(lambda: not valkey.client.exists(key))
    assert await there.claim(KEY, Claim("b", "print"), ttl_seconds=60) is None
    assert await here.claim(KEY, Claim("c", "print"), ttl_seconds=60) == Claim("b", "print")
