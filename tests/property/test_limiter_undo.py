"""A lease that is undone leaves the limiter as if it had never been, or with a little less."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import _core
from tests.property.test_limiter import (
    LEASE_TTL_NS,
    START_NS,
    Call,
    answer,
    anyhow,
    calls,
    forward,
    perform,
)
from tests.reference import limiter as twin
from tests.reference.limiter_calls import core_quota
from tests.reference.limiter_key import Quota


def reserve_and_undo(limiter: _core.Limiter, call: Call, now_ns: int) -> None:
    scopes = limiter.scopes([(key, core_quota(quota)) for key, quota in call.scopes])
    if call.tokens or call.requests or call.kibibytes:
        lease = limiter.reserve(scopes, now_ns, call.tokens, call.requests, 0, call.kibibytes)
        if isinstance(lease, _core.Lease):
            assert limiter.undo(lease, now_ns) is True
            assert limiter.undo(lease, now_ns) is False


def meters(limiter: _core.Limiter, call: Call, now_ns: int) -> list[Any]:
    scopes = [limiter.scopes([(key, core_quota(quota))]) for key, quota in call.scopes]
    return [answer(limiter.peek(scope, now_ns)) for scope in scopes]


@settings(max_examples=150, deadline=None)
@given(calls("ab", anyhow), st.sampled_from([1, 3]))
def test_every_scope_is_as_before_at_the_same_instant(made: list[Call], shards: int) -> None:
    limiter = _core.Limiter(shards=shards, lease_ttl_ns=LEASE_TTL_NS)
    now_ns, leases = START_NS, list[Any]()
    for call in made:
        now_ns = max(0, now_ns + call.step_ns)
        meters(limiter, call, now_ns)  # which adopts the quotas
        before = meters(limiter, call, now_ns)
        reserve_and_undo(limiter, call, now_ns)
        assert meters(limiter, call, now_ns) == before
        scopes = limiter.scopes([(key, core_quota(quota)) for key, quota in call.scopes])
        perform(limiter, call, scopes, leases, now_ns)


@settings(max_examples=150, deadline=None)
@given(calls("ab", forward), calls("ab", forward))
def test_no_later_answer_tells_that_there_was_such_a_lease(
    made: list[Call], undone: list[Call]
) -> None:
    rust = _core.Limiter(shards=2, lease_ttl_ns=LEASE_TTL_NS)
    plain = twin.Limiter(lease_ttl_ns=LEASE_TTL_NS)
    now_ns, rust_leases, plain_leases = START_NS, list[Any](), list[Any]()
    for number, call in enumerate(made):
        now_ns += call.step_ns
        extra = undone[number % len(undone)]._replace(scopes=call.scopes)
        reserve_and_undo(rust, extra, now_ns)
        plain.peek(call.scopes, now_ns)  # which adopts the quotas as well
        scopes = rust.scopes([(key, core_quota(quota)) for key, quota in call.scopes])
        expected = perform(plain, call, call.scopes, plain_leases, now_ns)
        assert perform(rust, call, scopes, rust_leases, now_ns) == expected, (call, now_ns)


rated = Quota(rate=3, period_ns=20, burst=6, tokens=30, window_ns=64, concurrency=9, kibibytes=99)
kinds = st.sampled_from(["reserve", "reserve", "take", "undo"])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), kinds, st.integers(0, 3), st.integers(1, 6)), max_size=40
    )
)
def test_leases_that_are_undone_later_leave_no_more_than_if_they_had_never_been(
    steps: list[tuple[int, str, int, int]],
) -> None:
    limiter, without = _core.Limiter(shards=1), _core.Limiter(shards=1)
    scopes = limiter.scopes([("a", core_quota(rated))])
    bare = without.scopes([("a", core_quota(rated))])
    now_ns, leases = START_NS, list[_core.Lease]()
    for step_ns, kind, requests, tokens in steps:
        now_ns += step_ns
        if kind == "reserve":
            lease = limiter.reserve(scopes, now_ns, tokens, requests, 0, 3 * tokens)
            leases += [lease] if isinstance(lease, _core.Lease) else []
        elif kind == "undo" and leases:
            assert limiter.undo(leases.pop(0), now_ns)
        elif limiter.take(scopes, now_ns, tokens, requests):
            assert without.take(bare, now_ns, tokens, requests) is True
    for lease in leases:
        assert limiter.undo(lease, now_ns)
    left, never = limiter.peek(scopes, now_ns), without.peek(bare, now_ns)
    assert answer(left)[1:] == answer(never)[1:]
    assert left.requests
    assert never.requests
    assert left.requests.remaining <= never.requests.remaining
    assert left.requests.reset_ns >= never.requests.reset_ns
