from __future__ import annotations

import pytest

from millstream.admission import (
    Lease,
    Limits,
    MemoryLimiter,
    Refusal,
    RequestRate,
    ScopedLimits,
    TokenWindow,
)
from tests.clock import SECOND, Clock
from tests.unit.admission.parts import admitted, left


def lease_of(limits: Limits, tokens: int, prompt_tokens: int = 0) -> tuple[MemoryLimiter, Lease]:
    limiter = MemoryLimiter(clock=Clock())
    return limiter, admitted(limiter, scopes_of(limits), tokens, prompt_tokens)


def scopes_of(limits: Limits) -> tuple[ScopedLimits, ...]:
    return (ScopedLimits("global", limits),)


def tokens_left(lease: Lease) -> int:
    remaining = lease.remaining_tokens()
    assert remaining is not None
    return remaining


def test_settling_charges_what_was_used() -> None:
    _, lease = lease_of(Limits(tokens=TokenWindow(100, 1_000)), 80)
    assert lease.tokens == 80
    assert lease.settle(30) is True
    assert tokens_left(lease) == 70


def test_cancelling_charges_prompt_and_emitted_tokens() -> None:
    _, lease = lease_of(Limits(tokens=TokenWindow(1_000, 1_000)), 500, prompt_tokens=120)
    assert lease.cancel(40) is True
    assert tokens_left(lease) == 840


def test_undoing_charges_not_even_the_request() -> None:
    limits = Limits(RequestRate(1, burst=5), TokenWindow(100, 1_000), concurrency=1)
    limiter, lease = lease_of(limits, 80, prompt_tokens=20)
    assert lease.undo() is True
    assert lease.undo() is False
    assert left(limiter.try_peek(scopes_of(limits))) == (5, 100, 1)


def test_only_the_first_ending_counts() -> None:
    _, lease = lease_of(Limits(tokens=TokenWindow(100, 1_000)), 80)
    assert lease.cancel(10) is True
    assert lease.settle(0) is False
    assert lease.cancel(90) is False
    assert lease.renew() is False
    assert tokens_left(lease) == 90


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
    refusal = Refusal("global", "requests", wait_ns, MemoryLimiter().try_peek(()))
    assert refusal.retry_after_seconds == seconds
    assert refusal.retry_after_ms == milliseconds
