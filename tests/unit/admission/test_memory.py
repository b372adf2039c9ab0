"""The counters of one process, under the contract that every limiter keeps."""

from __future__ import annotations

import gc

import pytest

from millstream.admission import (
    BytesInFlight,
    Cost,
    LimitBook,
    Limits,
    MemoryLimiter,
    Refusal,
    RequestRate,
    ScopedLimits,
    TokenWindow,
    memory,
)
from millstream.errors import ConfigError, CostExceedsLimit
from tests.clock import SECOND, Clock
from tests.unit.admission.parts import admitted, refused


@pytest.fixture
def clock() -> Clock:
    return Clock()


def whole(limits: Limits) -> tuple[ScopedLimits, ...]:
    return (ScopedLimits("global", limits),)


def test_the_memory_of_open_streams_is_held_until_they_end(clock: Clock) -> None:
    limiter = MemoryLimiter(clock=clock)
    scopes = whole(Limits(bytes_in_flight=BytesInFlight(limit=10_240)))
    lease = admitted(limiter, scopes, 1, kibibytes=6)
    assert lease.snapshot.bytes is not None
    assert (lease.snapshot.bytes.limit, lease.snapshot.bytes.remaining) == (10, 4)
    refusal = limiter.try_reserve(scopes, Cost(1, kibibytes=5))
    assert isinstance(refusal, Refusal)
    assert (refusal.dimension, refusal.retry_after_ns) == ("bytes", SECOND)
    with pytest.raises(CostExceedsLimit, match="needs 11 KiB, but the limit of the server is 10"):
        limiter.try_reserve(scopes, Cost(1, kibibytes=11))
    lease.settle(1)
    admitted(limiter, scopes, 1, kibibytes=10)


def test_models_share_the_servers_limit_and_have_their_own(clock: Clock) -> None:
    limiter = MemoryLimiter(clock=clock)
    book = LimitBook(
        Limits(tokens=TokenWindow(150, 1_000)),
        models={"a": Limits(tokens=TokenWindow(100, 1_000)), "b": Limits()},
    )
    admitted(limiter, book.scopes("t", "a"), 90)
    assert refused(limiter, book.scopes("t", "a"), 20).scope == "model:a"
    admitted(limiter, book.scopes("t", "b"), 50)
    assert refused(limiter, book.scopes("t", "b"), 20).scope == "global"
    assert refused(limiter, book.scopes("t", "unlisted"), 20).scope == "global"


async def test_waiting_and_not_waiting_calls_are_the_same(clock: Clock) -> None:
    limiter, scopes = MemoryLimiter(clock=clock), whole(Limits(concurrency=2))
    await limiter.start()
    assert await limiter.reserve(scopes, Cost(1))
    assert limiter.try_reserve(scopes, Cost(1))
    assert not await limiter.reserve(scopes, Cost(1))
    slots = (await limiter.peek(scopes)).concurrency
    assert slots is not None
    assert slots.remaining == 0
    await limiter.close()


def test_without_scopes_everything_is_admitted(clock: Clock) -> None:
    limiter = MemoryLimiter(clock=clock)
    lease = admitted(limiter, (), 2**40)
    assert (lease.tokens, lease.snapshot.requests, lease.remaining_tokens()) == (2**40, None, None)
    assert lease.renew() is True
    assert lease.settle(1) is True
    assert (lease.settle(1), lease.cancel(1), lease.undo(), lease.renew()) == (False,) * 4
    assert limiter.try_peek(()).tokens is None


def test_same_request_is_admitted_after_the_wait(clock: Clock) -> None:
    limiter, scopes = MemoryLimiter(clock=clock), whole(Limits(requests=RequestRate(2, 1)))
    admitted(limiter, scopes, 1)
    refusal = refused(limiter, scopes, 1)
    assert (refusal.dimension, refusal.retry_after_ns) == ("requests", SECOND // 2)
    assert refusal.snapshot.requests is not None
    assert refusal.snapshot.requests.remaining == 0
    clock.now_ns += refusal.retry_after_ns
    admitted(limiter, scopes, 1)


def test_refusal_is_false_and_a_lease_is_true(clock: Clock) -> None:
    limiter, scopes = MemoryLimiter(clock=clock), whole(Limits(concurrency=1))
    assert bool(limiter.try_reserve(scopes, Cost(1))) is True
    assert bool(limiter.try_reserve(scopes, Cost(1))) is False


def test_open_streams_ask_for_a_second_of_patience(clock: Clock) -> None:
    limiter, scopes = MemoryLimiter(clock=clock), whole(Limits(concurrency=1))
    lease = admitted(limiter, scopes, 1)
    refusal = refused(limiter, scopes, 1)
    assert (refusal.dimension, refusal.retry_after_ns) == ("concurrency", SECOND)
    lease.cancel(0)
    admitted(limiter, scopes, 1)


@pytest.mark.parametrize("tokens", [101, 2**40])
@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("global", "the server"),
        ("tenant:t", "the tenant 't'"),
        ("model:a", "the model 'a'"),
        ("tenant:t/model:a", "the tenant 't' for the model 'a'"),
        ("peer", "peer"),
    ],
)
def test_cost_that_can_never_fit_names_limit_and_scope(
    clock: Clock, tokens: int, scope: str, words: str
) -> None:
    limiter = MemoryLimiter(clock=clock)
    scopes = (ScopedLimits(scope, Limits(tokens=TokenWindow(100, 250))),)
    message = f"reserves {tokens} tokens, but the limit of {words} is 100 tokens per 250 ms"
    with pytest.raises(CostExceedsLimit, match=message) as caught:
        limiter.try_reserve(scopes, Cost(tokens))
    assert caught.value.param == "max_tokens"
    admitted(limiter, scopes, 100)


@pytest.mark.parametrize(
    ("limits", "dimension"),
    [
        # alibaba/Sentinel#461: a rate of 0 overflowed to "allow".
        (Limits(requests=RequestRate(0, 5)), "requests"),
        (Limits(requests=RequestRate(5, 0)), "requests"),
        (Limits(concurrency=0), "concurrency"),
    ],
)
def test_limit_of_zero_admits_nothing(clock: Clock, limits: Limits, dimension: str) -> None:
    limiter = MemoryLimiter(clock=clock)
    with pytest.raises(CostExceedsLimit, match=f"the server admits nothing.*{dimension}"):
        limiter.try_reserve(whole(limits), Cost(1))


def test_more_requests_at_once_than_the_bucket_holds_are_refused_for_good(clock: Clock) -> None:
    limiter = MemoryLimiter(clock=clock)
    with pytest.raises(CostExceedsLimit, match="needs 6 requests"):
        limiter.try_reserve(whole(Limits(requests=RequestRate(5, 5))), Cost(1, requests=6))


# limits#362: a negative cost gave quota back.
@pytest.mark.parametrize(
    "cost",
    [Cost(0), Cost(-5), Cost(2**40 + 1), Cost(1, -1), Cost(1, 1, -1), Cost(1, 1, 0, -1)],
    ids=repr,
)
def test_impossible_cost_is_an_error_before_any_state(clock: Clock, cost: Cost) -> None:
    limiter, scopes = MemoryLimiter(clock=clock), whole(Limits(requests=RequestRate(1, 1)))
    with pytest.raises(ValueError, match="cost"):
        limiter.try_reserve(scopes, cost)
    admitted(limiter, scopes, 1)


def test_lost_lease_ends_by_itself(clock: Clock) -> None:
    limiter = MemoryLimiter(clock=clock, lease_ttl_ns=SECOND)
    scopes = whole(Limits(tokens=TokenWindow(100, 60_000), concurrency=1))
    admitted(limiter, scopes, 60)
    clock.now_ns += SECOND
    lease = admitted(limiter, scopes, 10)
    assert lease.snapshot.tokens is not None
    assert lease.snapshot.tokens.remaining == 30


def test_other_limits_keep_what_is_in_use(clock: Clock) -> None:
    limiter = MemoryLimiter(clock=clock)
    lease = admitted(limiter, whole(Limits(concurrency=2)), 50)
    narrow = whole(Limits(concurrency=1))
    assert refused(limiter, narrow, 1).dimension == "concurrency"
    lease.settle(50)
    admitted(limiter, narrow, 1)


def test_a_lease_of_earlier_limits_does_not_bring_them_back(clock: Clock) -> None:
    limiter = MemoryLimiter(clock=clock)
    earlier = admitted(limiter, whole(Limits(tokens=TokenWindow(1_000, 1_000))), 100)
    narrow = whole(Limits(tokens=TokenWindow(300, 1_000)))
    admitted(limiter, narrow, 150)
    assert earlier.remaining_tokens() == 50
    assert refused(limiter, narrow, 51).dimension == "tokens"


def test_limits_in_force_outlive_those_of_scopes_that_are_no_longer_used(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MOST_RESOLVED", 4)
    limiter = MemoryLimiter(clock=clock)
    earlier = admitted(limiter, whole(Limits(tokens=TokenWindow(1_000, 1_000))), 100)
    narrow = whole(Limits(tokens=TokenWindow(300, 1_000)))
    for number in range(4):
        tenant = ScopedLimits(f"tenant:{number}", Limits(concurrency=1))
        admitted(limiter, (*narrow, tenant), 50)
    assert earlier.remaining_tokens() == 0


def test_limits_out_of_range_are_an_error_and_change_nothing(clock: Clock) -> None:
    limiter = MemoryLimiter(clock=clock)
    with pytest.raises(ConfigError):
        limiter.try_reserve(whole(Limits(concurrency=-1)), Cost(1))
    admitted(limiter, whole(Limits(concurrency=1)), 1)
    refused(limiter, whole(Limits(concurrency=1)), 1)


def test_what_is_remembered_of_scopes_has_a_bound(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MOST_RESOLVED", 10)
    limiter, limits = MemoryLimiter(clock=clock), Limits(requests=RequestRate(1, 1))
    for number in range(100):
        scopes = (ScopedLimits(f"peer:{number}", limits),)
        admitted(limiter, scopes, 1)
        refused(limiter, scopes, 1)
    gc.collect()
    assert (len(limiter._resolved), len(limiter._in_force)) == (10, 10)
    refused(limiter, (ScopedLimits("peer:0", limits),), 1)
