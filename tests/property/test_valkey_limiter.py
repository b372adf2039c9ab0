"""The script in Valkey answers as the Rust limiter does, whatever is asked at whatever time."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import _core
from millstream.admission import BytesInFlight, Cost, Limits, RequestRate, ScopedLimits, TokenWindow
from millstream.admission.shared_quota import UNIT_NS
from tests.integration.valkey_script import Refused, ScriptLimiter, Taken
from tests.integration.valkey_server import ValkeyServer

SECOND = 1_000_000_000 // UNIT_NS
START = 10_000 * SECOND
TTL = 2 * SECOND

_traces = count()


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    yield server
    server.close()


class Step(NamedTuple):
    """One call after so many units: ``lease`` counts back from the newest."""

    units: int
    method: str
    scopes: tuple[ScopedLimits, ...]
    cost: Cost
    lease: int


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    """Few rates and windows, so that scopes often go on under others that differ a little."""
    rates = [Fraction(0), Fraction(1), Fraction(2), Fraction(2000), Fraction(5, 60)]
    rate = draw(st.none() | st.sampled_from(rates))
    tokens = draw(st.none() | st.integers(0, 30))
    kibibytes = draw(st.none() | st.integers(0, 6))
    return Limits(
        requests=None if rate is None else RequestRate(rate, draw(st.integers(0, 6))),
        tokens=None if tokens is None else TokenWindow(tokens, draw(st.sampled_from([1, 2, 1000]))),
        concurrency=draw(st.none() | st.integers(0, 3)),
        bytes_in_flight=None if kibibytes is None else BytesInFlight(kibibytes * 1024),
    )


def some_of(one: st.SearchStrategy[Limits]) -> st.SearchStrategy[list[Limits]]:
    """Limits that a trace goes on under in turn, sometimes none."""
    return st.lists(one | st.just(Limits()), min_size=1, max_size=3)


rates = st.sampled_from([Fraction(1000), Fraction(2000)])
windows = st.builds(TokenWindow, st.integers(8, 30), st.sampled_from([1, 2]))
tight = st.one_of(
    some_of(st.builds(Limits, tokens=windows)),
    some_of(st.builds(Limits, requests=st.builds(RequestRate, rates, st.integers(1, 4)))),
    some_of(st.builds(Limits, concurrency=st.integers(1, 3))),
    some_of(st.builds(Limits, bytes_in_flight=st.just(BytesInFlight(4096)))),
)
"""Limits of one dimension, used up soon and back soon."""


@st.composite
def costs(draw: st.DrawFn) -> Cost:
    tokens = draw(st.integers(1, 12))
    return Cost(
        tokens,
        requests=draw(st.integers(0, 2)),
        prompt_tokens=draw(st.integers(0, tokens)),
        kibibytes=draw(st.integers(0, 3)),
    )


METHODS = [
    *("reserve", "reserve", "crowd", "settle", "leave", "cancel", "undo", "renew", "peek"),
]
"""A crowd reserves and leaves in one run of the script; it is as if one came after the other."""


@st.composite
def traces(
    draw: st.DrawFn,
    names: str,
    units: st.SearchStrategy[int],
    some: st.SearchStrategy[list[Limits]],
    *,
    all_names: bool = False,
) -> list[Step]:
    """A trace, which begins with a reservation; with ``all_names`` every call is about them all."""
    known = draw(some)
    scope = st.builds(ScopedLimits, st.sampled_from(names), st.sampled_from(known))
    least = len(names) if all_names else 1
    scopes = st.lists(
        scope, min_size=least, max_size=min(len(names), 4), unique_by=lambda pair: pair.scope
    ).map(tuple)
    step = st.builds(Step, units, st.sampled_from(METHODS), scopes, costs(), st.integers(1, 4))
    steps = draw(st.lists(step, min_size=15, max_size=60))
    return [steps[0]._replace(method="reserve"), *steps[1:]]


forward = st.one_of(
    st.integers(0, 40),
    st.integers(0, 4 * SECOND),
    st.sampled_from([125, 250, 2125, SECOND // 2000, SECOND, TTL]),
)
anyhow = forward | st.integers(-60, 0) | st.sampled_from([-SECOND, -70 * SECOND, 70 * SECOND])
short = st.integers(0, 60) | st.sampled_from([125, 1000, 2001])
jumpy = short | st.integers(-300, 300) | st.sampled_from([-4100, -2001, -1900, 1900, 2001, 4100])


def units_of(time_ns: int) -> int:
    """Rounded up: the clock of the script tells whole units."""
    return -(-time_ns // UNIT_NS)


def of_rust(snapshot: _core.Snapshot) -> tuple[Any, ...]:
    """Its meters with resets as the other side tells them: in whole units, rounded up."""
    meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency, snapshot.bytes)
    return tuple(
        meter and (meter.scope, meter.limit, meter.remaining, units_of(meter.reset_ns))
        for meter in meters
    )


def of_valkey(snapshot: Any) -> tuple[Any, ...]:
    return tuple(meter and (*meter[:3], meter.reset_ns // UNIT_NS) for meter in snapshot)


class Rust:
    """The limiter of the core under the same calls."""

    def __init__(self, ttl: int) -> None:
        self.now = 0
        self.limiter = _core.Limiter(shards=1, lease_ttl_ns=ttl * UNIT_NS)
        self.leases: list[_core.Lease] = []

    def scopes(self, step: Step) -> _core.Scopes:
        return self.limiter.scopes([(name, limits.quota()) for name, limits in step.scopes])

    def answer(self, step: Step) -> Any:
        now_ns, cost = self.now * UNIT_NS, step.cost
        if step.method == "peek":
            return of_rust(self.limiter.peek(self.scopes(step), now_ns))
        if step.method == "reserve":
            return self.decision(self.scopes(step), cost, now_ns)
        if step.method == "crowd":
            return [self.decision(self.scopes(step), cost, now_ns) for _ in range(step.lease)]
        if step.method == "renew":
            return [self.limiter.renew(lease, now_ns) for lease in self.leases[-step.lease :]]
        if step.method == "leave":
            leaving = self.leases[-step.lease :]
            return [self.limiter.settle(lease, cost.tokens, now_ns) for lease in leaving]
        lease = self.leases[-step.lease]
        if step.method == "undo":
            return self.limiter.undo(lease, now_ns)
        return getattr(self.limiter, step.method)(lease, cost.tokens, now_ns)

    def decision(self, scopes: _core.Scopes, cost: Cost, now_ns: int) -> Any:
        found = self.limiter.reserve(
            scopes, now_ns, cost.tokens, cost.requests, cost.prompt_tokens, cost.kibibytes
        )
        left = of_rust(self.limiter.peek(scopes, now_ns))
        if isinstance(found, _core.Lease):
            self.leases.append(found)
            return left
        return (found.scope, found.dimension, units_of(found.wait_ns), found.permanent, left)


class Script:
    """The script under the same calls."""

    def __init__(self, server: ValkeyServer, ttl: int) -> None:
        namespace = f"trace{next(_traces)}"
        self.limiter = ScriptLimiter(server, now=0, lease_ns=ttl * UNIT_NS, namespace=namespace)
        self.leases: list[Taken] = []

    def answer(self, step: Step) -> Any:
        if step.method == "peek":
            return of_valkey(self.limiter.peek(step.scopes))
        if step.method == "reserve":
            return self.told(self.limiter.reserve(step.scopes, step.cost))
        if step.method == "crowd":
            crowd = self.limiter.reserve_together(step.scopes, step.cost, step.lease)
            return [self.told(found) for found in crowd]
        if step.method == "renew":
            return self.limiter.renew(self.leases[-step.lease :])
        if step.method == "leave":
            return self.limiter.settle_together(self.leases[-step.lease :], step.cost.tokens)
        lease = self.leases[-step.lease]
        if step.method == "undo":
            return self.limiter.undo(lease)
        return getattr(self.limiter, step.method)(lease, step.cost.tokens)

    def told(self, found: Taken | Refused) -> Any:
        left = of_valkey(found.snapshot)
        if isinstance(found, Refused):
            return (found.scope, found.dimension, found.wait, found.permanent, left)
        self.leases.append(found)
        return left


def compare(server: ValkeyServer, trace: list[Step], *, start: int = START, ttl: int = TTL) -> None:
    rust, script = Rust(ttl), Script(server, ttl)
    now = start
    try:
        for step in trace:
            now = rust.now = script.limiter.now = max(0, now + step.units)
            if step.method in ("peek", "reserve", "crowd") or step.lease <= len(rust.leases):
                assert script.answer(step) == rust.answer(step), (step, now)
    finally:
        script.limiter.close()


@settings(max_examples=80, deadline=None)
@given(trace=traces("abcdefg", forward, some_of(limits())))
def test_the_same_trace_gets_the_same_answers(server: ValkeyServer, trace: list[Step]) -> None:
    compare(server, trace)


@settings(max_examples=60, deadline=None)
@given(trace=traces("ab", anyhow, some_of(limits()), all_names=True))
def test_so_it_does_under_a_clock_that_jumps(server: ValkeyServer, trace: list[Step]) -> None:
    compare(server, trace)


@settings(max_examples=120, deadline=None)
@given(trace=traces("a", jumpy, tight, all_names=True))
def test_so_it_does_when_windows_leases_and_jumps_are_as_long_as_each_other(
    server: ValkeyServer, trace: list[Step]
) -> None:
    compare(server, trace, start=20_000, ttl=2000)


@settings(max_examples=120, deadline=None)
@given(trace=traces("ab", short, tight))
def test_so_it_does_when_slots_of_different_windows_share_their_numbers(
    server: ValkeyServer, trace: list[Step]
) -> None:
    compare(server, trace, start=300, ttl=4000)


LARGE = ScopedLimits("a", Limits(RequestRate(Fraction(7, 60), burst=1_000_000)))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(forward, st.sampled_from(["reserve", "undo", "peek"]), st.integers(1, 400_000)),
        min_size=1,
        max_size=20,
    )
)
def test_so_it_does_where_a_bucket_must_be_counted_in_coarser_parts(
    server: ValkeyServer, moves: list[tuple[int, str, int]]
) -> None:
    trace = [
        Step(units, method, (LARGE,), Cost(1, requests=requests), 1)
        for units, method, requests in moves
    ]
    compare(server, trace)
