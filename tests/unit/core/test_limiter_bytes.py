"""The memory that open leases hold: counted like places among them, in KiB."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream._core import Lease, Limiter, Quota, Refusal, Scopes

SECOND = 1_000_000_000
NOW = 3_600 * SECOND


def one(limiter: Limiter, kibibytes: int, key: str = "global") -> Scopes:
    return limiter.scopes([(key, Quota(kibibytes=kibibytes))])


def held(limiter: Limiter, scopes: Scopes, kibibytes: int, now_ns: int = NOW) -> Lease:
    lease = limiter.reserve(scopes, now_ns, kibibytes=kibibytes)
    assert isinstance(lease, Lease)
    return lease


def refused(limiter: Limiter, scopes: Scopes, kibibytes: int, now_ns: int = NOW) -> Refusal:
    refusal = limiter.reserve(scopes, now_ns, kibibytes=kibibytes)
    assert isinstance(refusal, Refusal)
    return refusal


def left(limiter: Limiter, scopes: Scopes, now_ns: int = NOW) -> int:
    meter = limiter.peek(scopes, now_ns).bytes
    assert meter is not None
    assert meter.reset_ns == 0
    return meter.remaining


def test_open_leases_share_the_memory_and_nobody_knows_how_long() -> None:
    limiter = Limiter()
    scopes = one(limiter, 100)
    assert held(limiter, scopes, 60).kibibytes == 60
    assert left(limiter, scopes) == 40
    refusal = refused(limiter, scopes, 41)
    assert (refusal.scope, refusal.dimension) == ("global", "bytes")
    assert (refusal.wait_ns, refusal.permanent) == (0, False)
    assert left(limiter, scopes, NOW + 3_600 * SECOND // 10) == 40
    assert held(limiter, scopes, 40)
    assert left(limiter, scopes) == 0


def test_a_lease_that_could_never_fit_is_refused_for_good() -> None:
    limiter = Limiter()
    scopes = one(limiter, 100)
    held(limiter, scopes, 100)
    assert not refused(limiter, scopes, 100).permanent
    assert refused(limiter, scopes, 101).permanent


@pytest.mark.parametrize("ending", ["settle", "cancel", "undo", "expiry"])
def test_every_ending_gives_the_memory_back_once(ending: str) -> None:
    limiter = Limiter(lease_ttl_ns=10)
    scopes = one(limiter, 100)
    first, later = held(limiter, scopes, 60), NOW + 5
    held(limiter, scopes, 30, later)
    end: dict[str, Callable[[], object]] = {
        "settle": lambda: limiter.settle(first, 7, later),
        "cancel": lambda: limiter.cancel(first, 7, later),
        "undo": lambda: limiter.undo(first, later),
        "expiry": lambda: limiter.peek(scopes, NOW + 10),
    }
    for _ in range(2):
        end[ending]()
        assert left(limiter, scopes, later) == 70


def test_every_scope_holds_and_the_tightest_is_shown() -> None:
    limiter = Limiter()
    both = limiter.scopes([("global", Quota(kibibytes=100)), ("model:m", Quota(kibibytes=50))])
    held(limiter, both, 30)
    meter = limiter.peek(both, NOW).bytes
    assert meter is not None
    assert (meter.scope, meter.limit, meter.remaining) == ("model:m", 50, 20)
    assert refused(limiter, both, 21).scope == "model:m"
    assert left(limiter, one(limiter, 100)) == 70


def test_a_refusal_by_memory_takes_no_request_and_no_token() -> None:
    limiter = Limiter()
    quota = Quota(rate=1, burst=5, tokens=100, window_ns=SECOND, concurrency=9, kibibytes=10)
    scopes = limiter.scopes([("global", quota)])
    held(limiter, scopes, 10)
    before = limiter.peek(scopes, NOW)
    assert limiter.reserve(scopes, NOW, 50, 1, 0, 1).dimension == "bytes"  # type: ignore[union-attr]
    after = limiter.peek(scopes, NOW)
    for meter, same in [
        (before.requests, after.requests),
        (before.tokens, after.tokens),
        (before.concurrency, after.concurrency),
    ]:
        assert meter is not None
        assert same is not None
        assert meter.remaining == same.remaining


def test_a_refusal_by_memory_tells_the_wait_of_the_other_dimensions() -> None:
    limiter = Limiter()
    scopes = limiter.scopes([("global", Quota(rate=1, burst=1, kibibytes=10))])
    held(limiter, scopes, 10)
    refusal = refused(limiter, scopes, 1)
    assert (refusal.dimension, refusal.wait_ns) == ("bytes", SECOND)


def test_a_changed_quota_keeps_what_is_held() -> None:
    limiter = Limiter()
    unlimited = limiter.scopes([("global", Quota(concurrency=5))])
    lease = held(limiter, unlimited, 70)
    assert left(limiter, one(limiter, 100)) == 30
    assert left(limiter, one(limiter, 50)) == 0
    assert not refused(limiter, one(limiter, 50), 50).permanent
    assert held(limiter, one(limiter, 50), 0)
    assert limiter.settle(lease, 0, NOW)
    assert left(limiter, one(limiter, 50)) == 50


def test_take_holds_nothing() -> None:
    limiter = Limiter()
    scopes = one(limiter, 10)
    held(limiter, scopes, 10)
    assert limiter.take(scopes, NOW) is True
    assert left(limiter, scopes) == 0


def test_memory_alone_can_be_reserved() -> None:
    limiter = Limiter()
    scopes = limiter.scopes([("global", Quota(rate=1, burst=1, kibibytes=10))])
    assert isinstance(limiter.reserve(scopes, NOW, 0, 0, 0, 10), Lease)
    with pytest.raises(ValueError, match="nothing to reserve"):
        limiter.reserve(scopes, NOW, 0, 0, 0, 0)


@pytest.mark.parametrize("impossible", [-1, 2**40 + 1])
def test_impossible_memory_is_an_error(impossible: int) -> None:
    limiter = Limiter()
    with pytest.raises(ValueError, match="cost must lie in"):
        limiter.reserve(one(limiter, 10), NOW, kibibytes=impossible)
    with pytest.raises((ValueError, OverflowError)):
        Quota(kibibytes=impossible)
    assert limiter.keys == 0
