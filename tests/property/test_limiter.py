"""The Rust limiter answers as its plain twin does, whatever is asked and whatever time it is."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import _core
from tests.reference import limiter as twin
from tests.reference.limiter_calls import core_quota
from tests.reference.limiter_key import Quota

LEASE_TTL_NS = 150
START_NS = 10_000


class Call(NamedTuple):
    """One call: ``lease`` counts back from the newest, ``scopes`` are pairs of key and quota."""

    step_ns: int
    method: str
    scopes: tuple[tuple[str, Quota], ...]
    tokens: int
    requests: int
    prompt: int
    kibibytes: int
    lease: int


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    """Few lengths of slots and windows, so that slots of different quotas share their numbers."""
    rate = draw(st.none() | st.integers(0, 5))
    tokens = draw(st.none() | st.integers(0, 30))
    slots = draw(st.sampled_from([1, 2, 3, 16]))
    window_ns = draw(st.sampled_from([1, 4, 25])) * slots - draw(st.integers(0, slots - 1))
    return Quota(
        rate=rate,
        period_ns=draw(st.integers(1, 40)),
        burst=0 if rate is None else draw(st.integers(0, 6)),
        tokens=tokens,
        window_ns=0 if tokens is None else max(1, window_ns),
        slots=slots,
        concurrency=draw(st.none() | st.integers(0, 3)),
        kibibytes=draw(st.none() | st.integers(0, 20)),
    )


def calls(keys: str, steps: st.SearchStrategy[int]) -> st.SearchStrategy[list[Call]]:
    @st.composite
    def drawn(draw: st.DrawFn) -> list[Call]:
        known = draw(st.lists(quotas(), min_size=1, max_size=3))
        scope = st.tuples(st.sampled_from(keys), st.sampled_from(known))
        scopes = st.lists(scope, min_size=1, max_size=3, unique_by=lambda pair: pair[0])
        methods = st.sampled_from(
            ["reserve", "reserve", "reserve", "take", "settle", "cancel", "undo", "renew", "peek"]
        )
        call = st.builds(
            Call,
            step_ns=steps,
            method=methods,
            scopes=scopes.map(tuple),
            tokens=st.integers(0, 12),
            requests=st.integers(0, 2),
            prompt=st.integers(0, 12),
            kibibytes=st.integers(0, 9) | st.integers(0, 24),
            lease=st.integers(1, 4),
        )
        return draw(st.lists(call, min_size=1, max_size=60))

    return drawn()


forward = st.integers(0, 30) | st.integers(0, 300)
anyhow = forward | st.integers(-60, 0) | st.sampled_from([-5_000, 5_000])


def answer(value: Any) -> Any:
    """An answer in a form that both sides share."""
    match value:
        case _core.Lease() | twin.Lease():
            return ("lease", value.tokens, value.prompt, value.kibibytes)
        case _core.Refusal():
            return (value.scope, value.dimension, value.wait_ns, value.permanent)
        case _core.Snapshot():
            return tuple(
                meter and (meter.scope, meter.limit, meter.remaining, meter.reset_ns)
                for meter in (value.requests, value.tokens, value.concurrency, value.bytes)
            )
        case twin.Snapshot():
            meters = (value.requests, value.tokens, value.concurrency, value.bytes)
            return tuple(meter and astuple(meter) for meter in meters)
        case twin.Refusal():
            return astuple(value)
    return value


def perform(limiter: Any, call: Call, scopes: Any, leases: list[Any], now_ns: int) -> Any:
    try:
        match call.method:
            case "reserve":
                cost = (call.tokens, call.requests, call.prompt, call.kibibytes)
                value = limiter.reserve(scopes, now_ns, *cost)
                if value:
                    leases.append(value)
                return answer(value)
            case "take":
                return answer(limiter.take(scopes, now_ns, call.tokens, call.requests))
            case "peek":
                return answer(limiter.peek(scopes, now_ns))
    except ValueError:
        return "ValueError"
    if call.lease > len(leases):
        return None
    lease = leases[-call.lease]
    if call.method in ("undo", "renew"):
        return getattr(limiter, call.method)(lease, now_ns)
    return getattr(limiter, call.method)(lease, call.tokens, now_ns)


def compare(rust: _core.Limiter, plain: twin.Limiter, made: list[Call]) -> None:
    now_ns = START_NS
    rust_leases: list[Any] = []
    plain_leases: list[Any] = []
    for call in made:
        now_ns = max(0, now_ns + call.step_ns)
        rust_scopes = rust.scopes([(key, core_quota(quota)) for key, quota in call.scopes])
        expected = perform(plain, call, call.scopes, plain_leases, now_ns)
        assert perform(rust, call, rust_scopes, rust_leases, now_ns) == expected, (call, now_ns)


@settings(max_examples=200, deadline=None)
@given(calls("ab", anyhow))
def test_answers_as_the_twin_does_under_any_clock(made: list[Call]) -> None:
    rust = _core.Limiter(shards=1, lease_ttl_ns=LEASE_TTL_NS)
    compare(rust, twin.Limiter(lease_ttl_ns=LEASE_TTL_NS), made)


@settings(max_examples=150, deadline=None)
@given(calls("abcdefg", forward), st.sampled_from([2, 3, 8]))
def test_shards_and_forgetting_make_no_difference(made: list[Call], shards: int) -> None:
    rust = _core.Limiter(shards=shards, lease_ttl_ns=LEASE_TTL_NS)
    compare(rust, twin.Limiter(lease_ttl_ns=LEASE_TTL_NS), made)


@settings(max_examples=150, deadline=None)
@given(calls("abcdefg", forward))
def test_keys_without_room_share_one_overflow_key_per_quota(made: list[Call]) -> None:
    rust = _core.Limiter(max_keys=3, shards=1, lease_ttl_ns=LEASE_TTL_NS)
    compare(rust, twin.Limiter(max_keys=3, lease_ttl_ns=LEASE_TTL_NS), made)


@settings(max_examples=300, deadline=None)
@given(calls("a", anyhow) | calls("ab", forward))
def test_a_wait_is_the_first_nanosecond_that_suffices(made: list[Call]) -> None:
    limiter = _core.Limiter(shards=1, lease_ttl_ns=LEASE_TTL_NS)
    now_ns = START_NS
    for call in made:
        now_ns = max(0, now_ns + call.step_ns)
        if call.tokens == call.requests == 0:
            continue
        scopes = limiter.scopes([(key, core_quota(quota)) for key, quota in call.scopes])
        refusal = limiter.take(scopes, now_ns, call.tokens, call.requests)
        if isinstance(refusal, _core.Refusal) and not refusal.permanent:
            early = now_ns + refusal.wait_ns - 1
            assert limiter.take(scopes, early, call.tokens, call.requests) is not True
            now_ns = early + 1
            assert limiter.take(scopes, now_ns, call.tokens, call.requests) is True
