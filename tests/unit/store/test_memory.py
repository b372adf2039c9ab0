"""The memory store: what is kept, for how long, and what goes first."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from millstream.store import Claim, IdempotencyKey, MemoryStore
from tests.clock import Clock
from tests.unit.store.recordings import SECOND, Observed, Producer, finish, recording

KEY = IdempotencyKey("acme", "key")


@pytest.fixture
def clock() -> Clock:
    return Clock(5 * SECOND)


@pytest.fixture
def observed() -> Observed:
    return Observed()


@pytest.fixture
def store(clock: Clock, observed: Observed) -> MemoryStore:
    return MemoryStore(max_retained_bytes=1 << 20, clock=clock, observer=observed)


async def test_a_stream_that_has_ended_is_found_until_its_time_is_up(
    store: MemoryStore, clock: Clock, observed: Observed
) -> None:
    # vercel/resumable-stream#44: a resume just after the end got nothing.
    store.keep(finish(recording("a", "Hello", retention_seconds=10)))
    clock.now_ns += 10 * SECOND - 1
    store.sweep(clock.now_ns)
    found = await store.find("a")
    assert found is not None
    assert (found.log.text(), found.outcome) == ("Hello", "completed")
    clock.now_ns += 1
    assert await store.find("a") is None
    assert observed.retained[0] == 1
    store.sweep(clock.now_ns)
    assert observed.retained == (0, 0)


async def test_a_discarded_stream_goes_at_once_and_its_key_with_it(
    store: MemoryStore, observed: Observed
) -> None:
    await store.claim(KEY, Claim("a", "f"), ttl_seconds=10)
    store.keep(finish(recording("a", "Hello")))
    store.keep(finish(recording("b", "Hello")))
    await store.discard("a")
    await store.discard("a")
    assert await store.find("a") is None
    assert await store.find("b") is not None
    assert observed.retained[0] == 1
    assert await store.claim(KEY, Claim("c", "f"), ttl_seconds=10) is None


async def test_nothing_is_found_of_a_stream_that_lives_or_that_nobody_knows(
    store: MemoryStore,
) -> None:
    store.publish(recording("live"), Producer())
    assert await store.find("live") is None
    assert await store.find("nobody") is None
    assert not await store.cancel("live", None)


async def test_streams_expire_each_by_their_own_time(store: MemoryStore, clock: Clock) -> None:
    for name, seconds in (("long", 30), ("short", 10), ("middle", 20)):
        store.keep(finish(recording(name, retention_seconds=seconds)))
    for gone in ("short", "middle", "long"):
        clock.now_ns += 10 * SECOND
        store.sweep(clock.now_ns)
        assert await store.find(gone) is None
        left = {"short": ["middle", "long"], "middle": ["long"], "long": []}[gone]
        assert [await store.find(name) is not None for name in left] == [True] * len(left)


async def test_the_oldest_ended_go_first_when_room_is_needed(observed: Observed) -> None:
    # vllm#48454: ended responses were kept for ever.
    size = finish(recording("s", "x" * 1000)).log.memory_bytes
    store = MemoryStore(max_retained_bytes=3 * size + 10, observer=observed)
    live = recording("live", "x" * 100_000)
    store.publish(live, Producer())
    for number in range(20):
        store.keep(finish(recording(f"s{number}", "x" * 1000)))
        assert observed.retained[1] <= 3 * size + 10
    found = [number for number in range(20) if await store.find(f"s{number}")]
    assert found == [17, 18, 19]
    assert live.log.text() == "x" * 100_000


async def test_a_stream_larger_than_all_room_is_not_kept_and_costs_the_others(
    observed: Observed,
) -> None:
    store = MemoryStore(max_retained_bytes=10_000, observer=observed)
    store.keep(finish(recording("small", "x")))
    store.keep(finish(recording("large", "x" * 20_000)))
    assert [await store.find(name) for name in ("small", "large")] == [None, None]
    assert observed.retained == (0, 0)


async def test_a_stream_kept_again_counts_once_and_lives_from_then_on(
    store: MemoryStore, clock: Clock, observed: Observed
) -> None:
    stream = finish(recording("a", "text", retention_seconds=10))
    store.keep(stream)
    clock.now_ns += 6 * SECOND
    store.keep(stream)
    assert observed.retained == (1, stream.log.memory_bytes)
    clock.now_ns += 6 * SECOND
    store.sweep(clock.now_ns)
    assert await store.find("a") is not None
    clock.now_ns += 4 * SECOND
    store.sweep(clock.now_ns)
    assert observed.retained == (0, 0)


async def test_what_made_the_stream_is_not_kept_with_it(store: MemoryStore) -> None:
    stream = finish(recording("a", "text"))
    made = weakref.ref(stream)
    store.keep(stream)
    del stream
    gc.collect()
    assert made() is None
    assert await store.find("a") is not None


async def test_of_two_that_claim_a_key_at_once_the_second_is_told_of_the_first(
    store: MemoryStore,
) -> None:
    # mastodon#37879, grape-idempotency#10: two posts at once made two.
    first, second = Claim("a", "print"), Claim("b", "print")
    answers = await asyncio.gather(
        store.claim(KEY, first, ttl_seconds=60), store.claim(KEY, second, ttl_seconds=60)
    )
    assert list(answers) == [None, first]
    other = IdempotencyKey("other", KEY.key)
    assert await store.claim(other, second, ttl_seconds=60) is None


async def test_a_key_lasts_while_its_stream_lives_and_is_retained(
    store: MemoryStore, clock: Clock
) -> None:
    claim = Claim("a", "print")
    await store.claim(KEY, claim, ttl_seconds=5)
    stream = recording("a", retention_seconds=10)
    store.publish(stream, Producer())
    clock.now_ns += 3600 * SECOND
    store.sweep(clock.now_ns)
    assert await store.claim(KEY, Claim("b", "print"), ttl_seconds=5) == claim
    store.keep(finish(stream))
    clock.now_ns += 10 * SECOND - 1
    store.sweep(clock.now_ns)
    assert await store.claim(KEY, Claim("b", "print"), ttl_seconds=5) == claim
    clock.now_ns += 1
    store.sweep(clock.now_ns)
    assert await store.claim(KEY, Claim("b", "print"), ttl_seconds=5) is None


async def test_who_asks_for_a_key_leaves_it_as_it_is(store: MemoryStore, clock: Clock) -> None:
    assert await store.claimed(KEY) is None
    assert await store.claim(KEY, Claim("a", "print"), ttl_seconds=5) is None
    assert await store.claimed(KEY) == Claim("a", "print")
    assert await store.claimed(IdempotencyKey("other", KEY.key)) is None
    clock.now_ns += 5 * SECOND
    assert await store.claimed(KEY) is None
    assert await store.claim(KEY, Claim("b", "print"), ttl_seconds=5) is None


async def test_a_key_goes_with_a_stream_that_made_room(clock: Clock) -> None:
    store = MemoryStore(max_retained_bytes=10_000, clock=clock)
    await store.claim(KEY, Claim("a", "print"), ttl_seconds=60)
    stream = recording("a", "x" * 6000)
    store.publish(stream, Producer())
    store.keep(finish(stream))
    store.keep(finish(recording("b", "x" * 6000)))
    assert await store.claim(KEY, Claim("c", "print"), ttl_seconds=60) is None


async def test_a_key_whose_stream_never_came_is_free_when_released_or_when_its_time_is_up(
    store: MemoryStore, clock: Clock
) -> None:
    await store.claim(KEY, Claim("a", "print"), ttl_seconds=5)
    await store.release(KEY, "somebody else")
    assert await store.claim(KEY, Claim("b", "print"), ttl_seconds=5) == Claim("a", "print")
    await store.release(KEY, "a")
    assert await store.claim(KEY, Claim("b", "print"), ttl_seconds=5) is None
    clock.now_ns += 5 * SECOND
    assert await store.claim(KEY, Claim("c", "print"), ttl_seconds=5) is None
    await store.release(KEY, "b")
    assert await store.claim(KEY, Claim("d", "print"), ttl_seconds=5) == Claim("c", "print")


async def test_nothing_is_left_of_keys_that_were_given_back(
    store: MemoryStore, clock: Clock
) -> None:
    for number in range(100):
        await store.claim(IdempotencyKey("t", str(number)), Claim(str(number), ""), ttl_seconds=1)
    clock.now_ns += SECOND
    store.sweep(clock.now_ns)
    assert len(store._claims) == 0
