from __future__ import annotations

import pytest

from millstream._core import Limiter, Quota
from millstream.admission import Lease, MemoryLimiter, Refusal, RequestRate, TokenWindow
from millstream.admission.policies import Limits

SECOND = 1_000_000_000


def lease_of(limits: Limits, tokens: int, prompt_tokens: int = 0) -> tuple[MemoryLimiter, Lease]:
    limiter = MemoryLimiter(limits, clock=lambda: SECOND)
    lease = limiter.admit("m", tokens, prompt_tokens=prompt_tokens)
    assert isinstance(lease, Lease)
    return limiter, lease


def tokens_left(limiter: MemoryLimiter) -> int:
    meter = limiter.peek("m").tokens
    assert meter is not None
    return meter.remaining


def test_settling_charges_what_was_used() -> None:
    limiter, lease = lease_of(Limits(tokens=TokenWindow(100, 1_000)), 80)
    assert lease.tokens == 80
    assert lease.settle(30) is True
    assert tokens_left(limiter) == 70


def test_cancelling_charges_prompt_and_emitted_tokens() -> None:
    limiter, lease = lease_of(Limits(tokens=TokenWindow(1_000, 1_000)), 500, prompt_tokens=120)
    assert lease.cancel(40) is True
    assert tokens_left(limiter) == 840


def test_undoing_charges_not_even_the_request() -> None:
    limits = Limits(RequestRate(1, burst=5), TokenWindow(100, 1_000), concurrency=1)
    limiter, lease = lease_of(limits, 80, prompt_tokens=20)
    assert lease.undo() is True
    assert lease.undo() is False
    snapshot = limiter.peek("m")
    meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency)
    assert [meter.remaining for meter in meters if meter] == [5, 100, 1]


def test_only_the_first_ending_counts() -> None:
    limiter, lease = lease_of(Limits(tokens=TokenWindow(100, 1_000)), 80)
    assert lease.cancel(10) is True
    assert lease.settle(0) is False
    assert lease.cancel(90) is False
    assert lease.renew() is False
    assert tokens_left(limiter) == 90


def test_snapshot_stays_that_of_the_reservation() -> None:
    _, lease = lease_of(Limits(tokens=TokenWindow(100, 1_000)), 80)
    lease.settle(0)
    assert lease.snapshot.tokens is not None
    assert lease.snapshot.tokens.remaining == 20


# redis-cell#56, flask-limiter#62, dragonfly#8288: rounded down, or to nothing.
@pytest.mark.parametrize(
    ("wait_ns", "seconds", "milliseconds"),
    [
        (2 * SECOND, 2, 2_000),
        (2 * SECOND + SECOND // 10, 3, 2_100),
        (2 * SECOND + 1, 3, 2_001),
        (1, 1, 1),
        (0, 1, 1),
    ],
)
def test_retry_after_is_rounded_up_and_never_zero(
    wait_ns: int, seconds: int, milliseconds: int
) -> None:
    limiter = Limiter()
    snapshot = limiter.peek(limiter.scopes([("global", Quota())]), 0)
    refusal = Refusal("global", "requests", wait_ns, snapshot)
    assert refusal.retry_after_seconds == seconds
    assert refusal.retry_after_ms == milliseconds
