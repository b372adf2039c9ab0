from __future__ import annotations

import pytest

from millstream.admission import Lease, Limits, MemoryLimiter, Refusal, RequestRate, TokenWindow
from millstream.errors import ConfigError, CostExceedsLimit

SECOND = 1_000_000_000


class Clock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.now_ns = SECOND

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


def admitted(limiter: MemoryLimiter, model: str, tokens: int) -> Lease:
    lease = limiter.admit(model, tokens)
    assert isinstance(lease, Lease)
    return lease


def refused(limiter: MemoryLimiter, model: str, tokens: int) -> Refusal:
    refusal = limiter.admit(model, tokens)
    assert isinstance(refusal, Refusal)
    return refusal


def test_models_share_the_servers_limit_and_have_their_own(clock: Clock) -> None:
    limiter = MemoryLimiter(
        Limits(tokens=TokenWindow(150, 1_000)),
        {"a": Limits(tokens=TokenWindow(100, 1_000)), "b": Limits()},
        clock=clock,
    )
    admitted(limiter, "a", 90)
    assert refused(limiter, "a", 20).scope == "model:a"
    admitted(limiter, "b", 50)
    assert refused(limiter, "b", 20).scope == "global"
    assert refused(limiter, "unlisted", 20).scope == "global"


def test_without_limits_everything_is_admitted(clock: Clock) -> None:
    limiter = MemoryLimiter(clock=clock)
    lease = admitted(limiter, "any", 2**40)
    assert lease.snapshot.requests is None
    assert lease.settle(1) is True
    assert lease.settle(1) is False


def test_same_request_is_admitted_after_the_wait(clock: Clock) -> None:
    limiter = MemoryLimiter(Limits(requests=RequestRate(2, 1)), clock=clock)
    admitted(limiter, "m", 1)
    refusal = refused(limiter, "m", 1)
    assert (refusal.dimension, refusal.retry_after_ns) == ("requests", SECOND // 2)
    assert refusal.snapshot.requests is not None
    assert refusal.snapshot.requests.remaining == 0
    clock.now_ns += refusal.retry_after_ns
    admitted(limiter, "m", 1)


def test_refusal_is_false_and_a_lease_is_true(clock: Clock) -> None:
    limiter = MemoryLimiter(Limits(concurrency=1), clock=clock)
    assert bool(limiter.admit("m", 1)) is True
    assert bool(limiter.admit("m", 1)) is False


def test_open_streams_ask_for_a_second_of_patience(clock: Clock) -> None:
    limiter = MemoryLimiter(Limits(concurrency=1), clock=clock)
    lease = admitted(limiter, "m", 1)
    refusal = refused(limiter, "m", 1)
    assert (refusal.dimension, refusal.retry_after_ns) == ("concurrency", SECOND)
    lease.cancel(0)
    admitted(limiter, "m", 1)


@pytest.mark.parametrize("tokens", [101, 2**40])
def test_cost_that_can_never_fit_names_limit_and_scope(clock: Clock, tokens: int) -> None:
    limiter = MemoryLimiter(models={"a": Limits(tokens=TokenWindow(100, 250))}, clock=clock)
    message = rf"reserves {tokens} tokens.*model 'a' is 100 tokens per 250 ms"
    with pytest.raises(CostExceedsLimit, match=message) as caught:
        limiter.admit("a", tokens)
    assert caught.value.param == "max_tokens"
    admitted(limiter, "a", 100)


def test_cost_above_the_servers_limit_names_the_server(clock: Clock) -> None:
    limiter = MemoryLimiter(Limits(tokens=TokenWindow(100, 250)), clock=clock)
    with pytest.raises(CostExceedsLimit, match="limit of the server is 100 tokens"):
        limiter.admit("a", 101)


@pytest.mark.parametrize(
    ("limits", "dimension"),
    [
        (Limits(requests=RequestRate(0, 5)), "requests"),
        (Limits(requests=RequestRate(5, 0)), "requests"),
        (Limits(concurrency=0), "concurrency"),
    ],
)
def test_limit_of_zero_admits_nothing(clock: Clock, limits: Limits, dimension: str) -> None:
    limiter = MemoryLimiter(limits, clock=clock)
    with pytest.raises(CostExceedsLimit, match=f"the server admits nothing.*{dimension}"):
        limiter.admit("m", 1)


@pytest.mark.parametrize("tokens", [0, -5, 2**40 + 1])
def test_impossible_cost_is_an_error_before_any_state(clock: Clock, tokens: int) -> None:
    limiter = MemoryLimiter(Limits(requests=RequestRate(1, 1)), clock=clock)
    with pytest.raises(ValueError, match="cost"):
        limiter.admit("m", tokens)
    admitted(limiter, "m", 1)


def test_lost_lease_ends_by_itself(clock: Clock) -> None:
    limiter = MemoryLimiter(
        Limits(tokens=TokenWindow(100, 60_000), concurrency=1), clock=clock, lease_ttl_ns=SECOND
    )
    admitted(limiter, "m", 60)
    clock.now_ns += SECOND
    lease = admitted(limiter, "m", 10)
    assert lease.snapshot.tokens is not None
    assert lease.snapshot.tokens.remaining == 30


def test_replaced_limits_keep_what_is_in_use(clock: Clock) -> None:
    limiter = MemoryLimiter(models={"a": Limits(concurrency=2)}, clock=clock)
    lease = admitted(limiter, "a", 50)
    limiter.replace_limits(models={"a": Limits(concurrency=1)})
    assert refused(limiter, "a", 1).dimension == "concurrency"
    lease.settle(50)
    admitted(limiter, "a", 1)


def test_bad_replacement_leaves_the_limits_in_force(clock: Clock) -> None:
    limiter = MemoryLimiter(Limits(concurrency=1), clock=clock)
    with pytest.raises(ConfigError):
        limiter.replace_limits(Limits(concurrency=5), {"a": Limits(concurrency=-1)})
    admitted(limiter, "a", 1)
    refused(limiter, "a", 1)
