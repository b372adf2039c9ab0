"""What `_core.Limiter.undo` gives back, and what it must not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream._core import Lease, Limiter, Quota, Scopes

SECOND = 1_000_000_000
NOW = 3_600 * SECOND


def quota(rate: int = 1, burst: int = 5, limit: int = 100, concurrency: int = 3) -> Quota:
    return Quota(rate=rate, burst=burst, tokens=limit, window_ns=SECOND, concurrency=concurrency)


def reserved(limiter: Limiter, scopes: Scopes, now_ns: int, requests: int = 1) -> Lease:
    lease = limiter.reserve(scopes, now_ns, 40, requests)
    assert isinstance(lease, Lease)
    return lease


def left(limiter: Limiter, scopes: Scopes, now_ns: int) -> list[tuple[int, int]]:
    snapshot = limiter.peek(scopes, now_ns)
    meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency)
    return [(meter.remaining, meter.reset_ns) for meter in meters if meter is not None]


def test_every_scope_is_as_before_the_reservation() -> None:
    limiter = Limiter()
    quotas = [("global", quota()), ("tenant:a", quota(burst=7)), ("model:m", quota(limit=90))]
    scopes = limiter.scopes(quotas)
    reserved(limiter, scopes, NOW)
    each = [limiter.scopes([pair]) for pair in quotas]
    before = [left(limiter, scope, NOW + 7) for scope in each]
    lease = reserved(limiter, scopes, NOW + 7, requests=3)
    assert [left(limiter, scope, NOW + 7) for scope in each] != before
    assert limiter.undo(lease, NOW + 7) is True
    assert [left(limiter, scope, NOW + 7) for scope in each] == before
    assert limiter.holds == len(quotas)


@pytest.mark.parametrize("first", ["undo", "settle", "cancel"])
def test_a_lease_that_has_ended_is_not_undone(first: str) -> None:
    limiter = Limiter()
    scopes = limiter.scopes([("global", quota())])
    reserved(limiter, scopes, NOW)
    lease = reserved(limiter, scopes, NOW)
    end: dict[str, Callable[[], bool]] = {
        "undo": lambda: limiter.undo(lease, NOW),
        "settle": lambda: limiter.settle(lease, 40, NOW),
        "cancel": lambda: limiter.cancel(lease, 40, NOW),
    }
    assert end[first]() is True
    after = left(limiter, scopes, NOW)
    assert [again() for again in end.values()] == [False, False, False]
    assert limiter.renew(lease, NOW) is False
    assert left(limiter, scopes, NOW) == after


def test_a_lease_that_has_expired_stays_charged() -> None:
    limiter = Limiter(lease_ttl_ns=10)
    scopes = limiter.scopes([("global", quota())])
    lease = reserved(limiter, scopes, NOW)
    assert limiter.undo(lease, NOW + 10) is False
    assert [remaining for remaining, _ in left(limiter, scopes, NOW + 10)] == [4, 60, 3]


def test_the_rate_that_time_has_given_back_is_not_given_twice() -> None:
    limiter = Limiter()
    scopes = limiter.scopes([("global", Quota(rate=1, burst=3))])
    lease = limiter.reserve(scopes, NOW, 0, 2)
    assert isinstance(lease, Lease)
    later = NOW + 2 * SECOND
    assert limiter.take(scopes, later, requests=3) is True
    assert limiter.undo(lease, later)
    assert left(limiter, scopes, later) == [(0, 3 * SECOND)]


def test_tokens_whose_slot_has_left_the_ring_are_not_given_back() -> None:
    limiter = Limiter()
    scopes = limiter.scopes([("global", Quota(tokens=100, window_ns=SECOND))])
    lease = reserved(limiter, scopes, NOW)
    later = NOW + 2 * SECOND
    reserved(limiter, scopes, later)
    assert limiter.undo(lease, later)
    assert left(limiter, scopes, later)[0][0] == 60


def test_a_request_of_an_older_rate_is_not_given_back_under_the_new_one() -> None:
    limiter = Limiter()
    lease = reserved(limiter, limiter.scopes([("global", Quota(tokens=100, window_ns=9))]), NOW)
    rated = limiter.scopes([("global", Quota(rate=1, burst=5, tokens=100, window_ns=9))])
    assert limiter.take(rated, NOW, requests=3) is True
    assert limiter.undo(lease, NOW)
    assert [remaining for remaining, _ in left(limiter, rated, NOW)] == [2, 100]


def test_a_lease_of_another_limiter_is_an_error() -> None:
    limiter = Limiter()
    lease = reserved(limiter, limiter.scopes([("global", quota())]), NOW)
    with pytest.raises(ValueError, match="limiter"):
        Limiter().undo(lease, NOW)
