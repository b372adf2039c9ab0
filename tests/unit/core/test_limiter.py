"""What `_core.Limiter` promises beyond the reported bugs (`test_limiter_reports`)."""

from __future__ import annotations

import threading

import pytest

from millstream._core import Lease, Limiter, Meter, Quota, Refusal, Scopes

SECOND = 1_000_000_000
NOW = 3_600 * SECOND


def tokens(limit: int, window_ns: int = SECOND, slots: int = 16) -> Quota:
    return Quota(tokens=limit, window_ns=window_ns, slots=slots)


def requests(rate: int, burst: int) -> Quota:
    return Quota(rate=rate, burst=burst)


def one(limiter: Limiter, quota: Quota, key: str = "global") -> Scopes:
    return limiter.scopes([(key, quota)])


def reserved(limiter: Limiter, scopes: Scopes, now_ns: int, cost: int, prompt: int = 0) -> Lease:
    lease = limiter.reserve(scopes, now_ns, cost, 1, prompt)
    assert isinstance(lease, Lease)
    return lease


def refused(limiter: Limiter, scopes: Scopes, now_ns: int, cost: int = 0) -> Refusal:
    refusal = limiter.reserve(scopes, now_ns, cost)
    assert isinstance(refusal, Refusal)
    return refusal


def left(limiter: Limiter, scopes: Scopes, now_ns: int) -> int:
    meter = limiter.peek(scopes, now_ns).tokens
    assert isinstance(meter, Meter)
    return meter.remaining


def test_refusal_of_one_scope_takes_nothing_from_the_others() -> None:
    limiter = Limiter()
    quotas = [("global", tokens(1_000)), ("tenant:a", tokens(500)), ("model:m", tokens(10))]
    scopes = limiter.scopes(quotas)
    refusal = refused(limiter, scopes, NOW, 11)
    assert (refusal.scope, refusal.dimension, refusal.permanent) == ("model:m", "tokens", True)
    for key, quota in quotas[:2]:
        assert left(limiter, one(limiter, quota, key), NOW) == (1_000 if key == "global" else 500)


def test_refusal_names_the_scope_with_the_longest_wait() -> None:
    limiter = Limiter()
    quotas = [("a", requests(10, 1)), ("b", requests(1, 1)), ("c", requests(5, 1))]
    scopes = limiter.scopes(quotas)
    assert limiter.take(scopes, NOW) is True
    refusal = refused(limiter, scopes, NOW)
    assert (refusal.scope, refusal.wait_ns) == ("b", SECOND)
    assert repr(refusal) == (
        'Refusal(scope="b", dimension="requests", wait_ns=1000000000, permanent=False)'
    )


def test_settling_below_the_reservation_gives_the_rest_back() -> None:
    limiter = Limiter()
    scopes = one(limiter, tokens(100))
    lease = reserved(limiter, scopes, NOW, 80)
    assert limiter.settle(lease, 30, NOW + 1)
    assert left(limiter, scopes, NOW + 1) == 70


def test_settling_above_the_reservation_becomes_debt_that_delays() -> None:
    limiter = Limiter()
    scopes = one(limiter, tokens(100))
    lease = reserved(limiter, scopes, NOW, 80)
    assert limiter.settle(lease, 250, NOW + SECOND // 2)
    refusal = refused(limiter, scopes, NOW + SECOND // 2, 1)
    assert not refusal.permanent
    assert reserved(limiter, scopes, NOW + SECOND // 2 + refusal.wait_ns, 1)


def test_credit_after_the_window_gives_nothing() -> None:
    limiter = Limiter()
    scopes = one(limiter, tokens(100))
    lease = reserved(limiter, scopes, NOW, 100)
    reserved(limiter, scopes, NOW + 2 * SECOND, 60)
    assert limiter.settle(lease, 0, NOW + 2 * SECOND)
    assert left(limiter, scopes, NOW + 2 * SECOND) == 40


@pytest.mark.parametrize("end", ["settle", "cancel"])
def test_second_ending_does_nothing(end: str) -> None:
    limiter = Limiter()
    scopes = one(limiter, Quota(tokens=100, window_ns=SECOND, concurrency=5))
    lease = reserved(limiter, scopes, NOW, 50)
    reserved(limiter, scopes, NOW, 10)
    assert getattr(limiter, end)(lease, 20, NOW) is True
    assert limiter.settle(lease, 0, NOW) is False
    assert limiter.cancel(lease, 0, NOW) is False
    assert limiter.renew(lease, NOW) is False
    assert left(limiter, scopes, NOW) == 70
    assert limiter.holds == 1


def test_concurrency_counts_open_leases_and_frees_on_any_ending() -> None:
    limiter = Limiter()
    scopes = one(limiter, Quota(concurrency=2))
    first, second = (reserved(limiter, scopes, NOW, 0) for _ in range(2))
    refusal = refused(limiter, scopes, NOW)
    assert (refusal.dimension, refusal.wait_ns, refusal.permanent) == ("concurrency", 0, False)
    limiter.settle(first, 0, NOW)
    third = reserved(limiter, scopes, NOW, 0)
    limiter.cancel(second, 0, NOW)
    limiter.cancel(third, 0, NOW)
    meter = limiter.peek(scopes, NOW).concurrency
    assert meter is not None
    assert (meter.limit, meter.remaining, meter.reset_ns) == (2, 2, 0)


def test_refusal_by_leases_tells_the_wait_of_the_other_dimensions() -> None:
    limiter = Limiter()
    scopes = one(limiter, Quota(rate=1, burst=1, concurrency=1))
    reserved(limiter, scopes, NOW, 0)
    refusal = refused(limiter, scopes, NOW)
    assert (refusal.dimension, refusal.wait_ns) == ("concurrency", SECOND)


def test_take_neither_needs_nor_holds_a_lease() -> None:
    limiter = Limiter()
    scopes = one(limiter, Quota(rate=1, burst=2, concurrency=0))
    assert limiter.take(scopes, NOW) is True
    assert refused(limiter, scopes, NOW).permanent
    assert limiter.holds == 0


def test_expired_lease_stays_charged_and_frees_its_place() -> None:
    limiter = Limiter(lease_ttl_ns=10)
    scopes = one(limiter, Quota(tokens=100, window_ns=SECOND, concurrency=1))
    lease = reserved(limiter, scopes, NOW, 60)
    refused(limiter, scopes, NOW + 9, 1)
    reserved(limiter, scopes, NOW + 10, 1)
    assert limiter.settle(lease, 0, NOW + 10) is False
    assert left(limiter, scopes, NOW + 10) == 39


def test_renewed_lease_lives_on() -> None:
    limiter = Limiter(lease_ttl_ns=10)
    scopes = one(limiter, Quota(concurrency=2))
    renewed = reserved(limiter, scopes, NOW, 0)
    reserved(limiter, scopes, NOW + 1, 0)
    assert limiter.renew(renewed, NOW + 9) is True
    limiter.peek(scopes, NOW + 18)
    assert limiter.holds == 1
    assert limiter.renew(renewed, NOW + 19) is False
    assert limiter.holds == 0


def test_lease_that_spans_shards_expires_as_a_whole() -> None:
    limiter = Limiter(lease_ttl_ns=10, shards=64, max_keys=6_400)
    scopes = limiter.scopes([(key, Quota(concurrency=1)) for key in "abcdef"])
    lease = reserved(limiter, scopes, NOW, 0)
    assert limiter.holds == 6
    for key in "abcd":
        limiter.peek(one(limiter, Quota(concurrency=1), key), NOW + 10)
    assert limiter.settle(lease, 0, NOW + 10) is False
    assert limiter.holds == 0


def test_peek_takes_nothing_and_makes_no_key() -> None:
    limiter = Limiter()
    scopes = one(limiter, Quota(rate=10, burst=7, tokens=9, window_ns=SECOND))
    for _ in range(3):
        snapshot = limiter.peek(scopes, NOW)
    assert limiter.keys == 0
    assert snapshot.requests is not None
    assert snapshot.tokens is not None
    assert snapshot.concurrency is None
    assert (snapshot.requests.limit, snapshot.requests.remaining) == (7, 7)
    assert (snapshot.tokens.remaining, snapshot.tokens.reset_ns) == (9, 0)


def test_peek_shows_the_tightest_scope_of_each_dimension() -> None:
    limiter = Limiter()
    wide = Quota(rate=100, burst=50, tokens=10, window_ns=SECOND)
    narrow = Quota(rate=1, burst=5, tokens=100, window_ns=SECOND)
    scopes = limiter.scopes([("global", wide), ("model:m", narrow)])
    assert limiter.take(scopes, NOW, 4) is True
    snapshot = limiter.peek(scopes, NOW)
    assert snapshot.requests is not None
    assert snapshot.tokens is not None
    assert (snapshot.requests.scope, snapshot.requests.remaining) == ("model:m", 4)
    assert snapshot.requests.reset_ns == SECOND
    assert (snapshot.tokens.scope, snapshot.tokens.remaining) == ("global", 6)


def test_debt_never_shows_as_less_than_nothing() -> None:
    limiter = Limiter()
    scopes = one(limiter, tokens(10))
    limiter.settle(reserved(limiter, scopes, NOW, 10), 500, NOW)
    assert left(limiter, scopes, NOW) == 0


def test_changed_quota_keeps_what_was_used() -> None:
    limiter = Limiter()
    assert limiter.take(one(limiter, tokens(100)), NOW, 60) is True
    assert left(limiter, one(limiter, tokens(80)), NOW) == 20
    assert left(limiter, one(limiter, tokens(50)), NOW) == 0
    assert left(limiter, one(limiter, tokens(200, 5 * SECOND, 8)), NOW) == 140
    refusal = refused(limiter, one(limiter, tokens(100, 5 * SECOND, 8)), NOW + 4 * SECOND, 50)
    assert refusal.wait_ns > 0


def test_reservation_under_an_older_window_gets_no_credit_in_the_new_one() -> None:
    limiter = Limiter()
    lease = reserved(limiter, one(limiter, tokens(100)), NOW, 60)
    half = one(limiter, tokens(100, SECOND // 2, 8))  # slots of the same length, and numbers
    assert left(limiter, half, NOW) == 40
    assert limiter.settle(lease, 0, NOW)
    assert left(limiter, half, NOW) == 40


def test_credit_for_the_slot_that_just_left_the_ring_gives_nothing() -> None:
    limiter = Limiter()
    scopes = one(limiter, tokens(100, 160, 16))
    start = NOW - NOW % 10
    lease = reserved(limiter, scopes, start, 100)
    assert limiter.take(scopes, start + 170, 60) is True
    assert limiter.settle(lease, 0, start + 170)
    assert left(limiter, scopes, start + 170) == 40


@pytest.mark.parametrize(
    "arguments",
    [
        {"rate": 1},
        {"burst": 1},
        {"tokens": 1},
        {"window_ns": 1},
        {"rate": 1, "burst": 1, "period_ns": 0},
        {"rate": 1, "burst": 2**40 + 1},
        {"tokens": 2**40 + 1, "window_ns": 1},
        {"tokens": 1, "window_ns": 0},
        {"tokens": 1, "window_ns": 1, "slots": 0},
        {"tokens": 1, "window_ns": 1, "slots": 65},
        {"concurrency": 2**40 + 1},
    ],
    ids=str,
)
def test_impossible_quota_is_an_error(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"go together|must lie in|slots"):
        Quota(**arguments)


def test_quotas_are_values() -> None:
    assert tokens(5) == tokens(5)
    assert hash(tokens(5)) == hash(tokens(5))
    assert tokens(5) != tokens(6)


@pytest.mark.parametrize("keys", [[], list("abcdefg"), ["a", "b", "a"]], ids=len)
def test_scopes_are_one_to_six_different_keys(keys: list[str]) -> None:
    with pytest.raises(ValueError, match="scopes"):
        Limiter().scopes([(key, tokens(1)) for key in keys])


def test_scopes_and_leases_of_another_limiter_are_errors() -> None:
    mine, other = Limiter(), Limiter()
    scopes = one(other, tokens(10))
    lease = reserved(other, scopes, NOW, 1)
    with pytest.raises(ValueError, match="another limiter"):
        mine.reserve(scopes, NOW, 1)
    with pytest.raises(ValueError, match="another limiter"):
        mine.peek(scopes, NOW)
    with pytest.raises(ValueError, match="another limiter"):
        mine.settle(lease, 1, NOW)


@pytest.mark.parametrize(("max_keys", "shards"), [(0, 1), (3, 4), (10, 0), (100_000, 65_537)])
def test_limiter_without_room_is_an_error(max_keys: int, shards: int) -> None:
    with pytest.raises(ValueError, match="shards"):
        Limiter(max_keys=max_keys, shards=shards)


def test_settling_with_an_impossible_cost_leaves_the_lease_open() -> None:
    limiter = Limiter()
    scopes = one(limiter, tokens(10))
    lease = reserved(limiter, scopes, NOW, 5)
    for impossible in (-1, 2**40 + 1):
        with pytest.raises(ValueError, match="cost"):
            limiter.settle(lease, impossible, NOW)
        with pytest.raises(ValueError, match="cost"):
            limiter.cancel(lease, impossible, NOW)
    assert limiter.settle(lease, 0, NOW) is True


def test_keys_without_room_share_the_overflow_key_of_their_quota() -> None:
    limiter = Limiter(max_keys=2, shards=1)
    quota = tokens(10)
    for key in ("a", "b"):
        assert limiter.take(one(limiter, quota, key), NOW, 10) is True
    assert limiter.take(one(limiter, quota, "c"), NOW, 6) is True
    assert limiter.take(one(limiter, quota, "d"), NOW, 6) is not True
    assert limiter.take(one(limiter, tokens(11), "e"), NOW, 6) is True
    assert limiter.keys == 2


def test_a_key_that_gets_a_place_of_its_own_brings_what_it_may_have_used_without() -> None:
    limiter = Limiter(max_keys=1, shards=1)
    small, quota = (
        Quota(tokens=5, window_ns=SECOND),
        Quota(rate=1, burst=9, tokens=10, window_ns=9 * SECOND),
    )
    assert limiter.take(one(limiter, small, "a"), NOW, 5) is True
    late = one(limiter, quota, "b")
    assert limiter.take(late, NOW, 8) is True
    now = NOW + 2 * SECOND
    before = limiter.peek(late, now)
    assert before.requests is not None
    assert before.tokens is not None
    assert (before.requests.remaining, before.tokens.remaining) == (9, 2)
    assert limiter.take(late, now, 3) is not True
    assert limiter.take(late, now, 2) is True
    assert limiter.keys == 1
    assert limiter.take(one(limiter, quota, "c"), now, 3) is not True
    assert limiter.take(late, NOW + 12 * SECOND, 10) is True


def test_one_decision_charges_the_overflow_key_once() -> None:
    limiter = Limiter(max_keys=1, shards=1)
    quota = tokens(10)
    assert limiter.take(one(limiter, quota, "a"), NOW, 1) is True
    both = limiter.scopes([("b", quota), ("c", quota)])
    lease = reserved(limiter, both, NOW, 10)
    assert limiter.holds == 1
    assert limiter.settle(lease, 4, NOW)
    assert limiter.take(both, NOW, 6) is True
    assert limiter.take(both, NOW, 1) is not True


# PyrateLimiter#300: a take that races another was admitted twice at one slot.
def test_decisions_from_threads_admit_exactly_the_limit() -> None:
    limiter = Limiter(shards=4, max_keys=400)
    quota = Quota(rate=1, burst=1_000, tokens=10_000, window_ns=3_600 * SECOND)
    keys = ["global", "model:a", "model:b"]
    scopes = [
        limiter.scopes([(key, quota) for key in order]) for order in (keys, keys[::-1], keys[1:])
    ]
    admitted = [0] * 6
    start = threading.Barrier(6)

    def decide(number: int) -> None:
        start.wait()
        for _ in range(1_000):
            lease = limiter.reserve(scopes[number % 3], NOW, 10)
            if isinstance(lease, Lease):
                admitted[number] += 1
                limiter.settle(lease, 10, NOW)

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == 1_000
    assert limiter.holds == 0
