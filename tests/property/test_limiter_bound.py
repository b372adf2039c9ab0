"""The published bound holds for 64 clients that come, go, expire and over-run under a bad clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import _core
from tests.property.limiter_bound import Charge, Ledger

CLIENTS = 64
CALLS = 3_000
MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND
LEASE_TTL_NS = 3 * SECOND
WINDOWS = {
    "global": (4_000, SECOND),
    "model:a": (1_500, 100 * MILLISECOND),
    "model:b": (900, SECOND),
}


@dataclass(slots=True)
class Clock:
    """A reading that mostly moves ahead a little, and is set now and then; its movement ahead."""

    random: Random
    reading_ns: int = 24 * 3_600 * SECOND
    moved_ns: int = 0

    def move(self) -> None:
        step = int(self.random.expovariate(1 / (3 * MILLISECOND)))
        match self.random.randrange(200):
            case 0 | 1 | 2:
                step = self.random.randrange(-2 * SECOND, 2 * SECOND)
            case 3:
                step = self.random.randrange(-600 * SECOND, 600 * SECOND)
            case 4 | 5 | 6 | 7:
                step = self.random.randrange(-150 * MILLISECOND, 0)
        self.reading_ns += step
        self.moved_ns += max(0, step)


@dataclass(slots=True)
class Stream:
    """A client's open lease with its charge in each scope."""

    lease: _core.Lease
    charges: list[tuple[Ledger, Charge]]


@dataclass(slots=True)
class Run:
    """One limiter, its clients, and the ledgers of its keys."""

    random: Random
    overruns: bool
    limiter: _core.Limiter = field(
        default_factory=lambda: _core.Limiter(shards=4, lease_ttl_ns=LEASE_TTL_NS)
    )
    ledgers: dict[str, Ledger] = field(
        default_factory=lambda: {key: Ledger(*window) for key, window in WINDOWS.items()}
    )
    open: dict[int, Stream] = field(default_factory=dict)
    refused: int = 0
    expired: int = 0

    def call(self, client: int, clock: Clock) -> None:
        """One call of one client: it reserves, or ends what it has, or forgets about it."""
        clock.move()
        now_ns = clock.reading_ns
        stream = self.open.pop(client, None)
        if stream is None:
            self.reserve(client, clock, now_ns)
        elif self.random.random() < 0.95:
            self.end(stream, clock, now_ns)

    def reserve(self, client: int, clock: Clock, now_ns: int) -> None:
        keys = ("global", "model:a" if client % 2 else "model:b")
        scopes = self.scopes(*keys)
        tokens = self.random.randrange(1, 400)
        found = self.limiter.reserve(scopes, now_ns, tokens, 1, self.random.randrange(tokens))
        if isinstance(found, _core.Refusal):
            assert not found.permanent
            self.refused += 1
            return
        ledgers = [self.ledgers[key] for key in keys]
        charges = [(ledger, ledger.admit(tokens, clock.moved_ns)) for ledger in ledgers]
        self.open[client] = Stream(found, charges)

    def scopes(self, *keys: str) -> _core.Scopes:
        quotas = {
            key: _core.Quota(tokens=WINDOWS[key][0], window_ns=WINDOWS[key][1]) for key in keys
        }
        return self.limiter.scopes(list(quotas.items()))

    def end(self, stream: Stream, clock: Clock, now_ns: int) -> None:
        lease = stream.lease
        most = lease.tokens + (self.random.randrange(200) if self.overruns else 0)
        used = self.random.randrange(most + 1)
        match self.random.choice(["settle", "settle", "cancel", "undo"]):
            case "settle":
                ended, cost = self.limiter.settle(lease, used, now_ns), used
            case "cancel":
                emitted = max(0, used - lease.prompt)
                ended, cost = self.limiter.cancel(lease, emitted, now_ns), lease.prompt + emitted
            case _:
                ended, cost = self.limiter.undo(lease, now_ns), 0
        if not ended:
            self.expired += 1
            return
        for ledger, charge in stream.charges:
            ledger.settle(charge, cost, clock.moved_ns)


def run(seed: int, *, overruns: bool) -> Run:
    random = Random(seed)
    found, clock = Run(random, overruns), Clock(random)
    for _ in range(CALLS):
        found.call(random.randrange(CLIENTS), clock)
    return found


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_no_window_is_charged_more_than_the_bound(seed: int, overruns: bool) -> None:
    found = run(seed, overruns=overruns)
    if not overruns:
        assert all(ledger.worst == 0 for ledger in found.ledgers.values())


def test_the_bound_is_tried_in_earnest() -> None:
    runs = [run(seed, overruns=True) for seed in range(8)]
    assert all(found.refused > CALLS / 20 for found in runs)
    assert all(found.expired > 0 for found in runs)
    for key in WINDOWS:
        assert any(found.ledgers[key].worst > 0 for found in runs)
        assert all(found.ledgers[key].admitted > 10 * found.ledgers[key].limit for found in runs)


episodes = st.tuples(st.sampled_from([0, 400, 1_100, 20_000]), st.integers(1, 30))


@settings(max_examples=40, deadline=None)
@given(st.lists(episodes, min_size=1, max_size=20), st.integers(1, 200))
def test_a_clock_set_back_and_right_gives_no_more_than_true_time(
    episodes: list[tuple[int, int]], step: int
) -> None:
    limiter = _core.Limiter()
    quota = _core.Quota(rate=10, burst=10, tokens=100, window_ns=SECOND)
    scopes = limiter.scopes([("g", quota)])
    begin_ns = truth_ns = 24 * 3_600 * SECOND
    requests = tokens = 0
    for late, steps in [(0, 1), *episodes]:
        for late_ns in [late * MILLISECOND] * steps + [0]:
            while limiter.take(scopes, truth_ns - late_ns, 1, 0):
                tokens += 1
            while limiter.take(scopes, truth_ns - late_ns, 0, 1):
                requests += 1
            elapsed_ns = truth_ns - begin_ns
            assert tokens <= 100 * (elapsed_ns // SECOND + 1)
            assert requests <= 10 + elapsed_ns * 10 // SECOND
            truth_ns += step * MILLISECOND


def test_streams_that_over_run_together_add_up_and_are_paid_before_the_next() -> None:
    limiter = _core.Limiter()
    scopes = limiter.scopes([("g", _core.Quota(tokens=100, window_ns=SECOND))])
    leases = [limiter.reserve(scopes, SECOND, 50) for _ in range(2)]
    ledger = Ledger(100, SECOND)
    charges = [ledger.admit(50, SECOND) for _ in leases]
    for lease, charge in zip(leases, charges, strict=True):
        assert isinstance(lease, _core.Lease)
        assert limiter.settle(lease, 80, SECOND)
        ledger.settle(charge, 80, SECOND)
    assert ledger.worst == 60
    refusal = limiter.reserve(scopes, SECOND, 1)
    assert isinstance(refusal, _core.Refusal)
    assert refusal.wait_ns >= SECOND


@pytest.mark.parametrize("overrun", [0, 5])
def test_the_ledger_finds_what_breaks_the_bound(overrun: int) -> None:
    ledger = Ledger(100, SECOND)
    charge = ledger.admit(60, 0)
    ledger.settle(charge, 60 + overrun, 1)
    with pytest.raises(AssertionError):
        ledger.admit(41 - overrun, SECOND - 1)
    later = Ledger(100, SECOND)
    later.settle(later.admit(60, 0), 60 + overrun, 1)
    later.admit(100 - overrun, SECOND)
