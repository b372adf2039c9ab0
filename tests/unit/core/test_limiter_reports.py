"""Bugs that other limiters were reported for, with the right answers; the twin is held to them too.

The ids name the reports: repository and issue number.
"""

from __future__ import annotations

from typing import Any

import pytest

from millstream import _core
from tests.reference import limiter as twin
from tests.reference.limiter_key import Quota as TwinQuota

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
NOW = 24 * HOUR


class Subject:
    """One limiter with one way to make its quotas."""

    def __init__(self, limiter: Any, quota: Any) -> None:
        self.limiter = limiter
        self.quota = quota

    def scopes(self, **scopes: dict[str, int]) -> Any:
        pairs = [(key, self.quota(**quota)) for key, quota in scopes.items()]
        return self.limiter.scopes(pairs)

    def remaining(self, scopes: Any, now_ns: int, dimension: str = "tokens") -> int:
        meter = getattr(self.limiter.peek(scopes, now_ns), dimension)
        assert meter.remaining >= 0
        return int(meter.remaining)

    def admits(self, scopes: Any, now_ns: int, tokens: int = 0, requests: int = 1) -> bool:
        return self.limiter.take(scopes, now_ns, tokens, requests) is True


@pytest.fixture(params=["rust", "twin"])
def subject(request: pytest.FixtureRequest) -> Subject:
    if request.param == "rust":
        return Subject(_core.Limiter(), _core.Quota)
    return Subject(twin.Limiter(), TwinQuota)


def reports(*names: str) -> pytest.MarkDecorator:
    """Marks a test with the reports that it answers, and puts them into its id."""
    return pytest.mark.parametrize("report", [" ".join(names)])


@reports("litellm#18730", "ai-gateway#680")
def test_open_reservations_count_before_they_are_settled(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"tokens": 100, "window_ns": MINUTE})
    costs = [58, 97, 120, 175, 42]
    leases = [subject.limiter.reserve(scopes, NOW, min(cost, 100)) for cost in costs]
    admitted = [cost for cost, lease in zip(costs, leases, strict=True) if lease]
    assert admitted == [58, 42]
    assert subject.remaining(scopes, NOW) == 0


@reports("litellm#24677", "litellm PR#29424")
def test_requests_and_tokens_have_windows_of_their_own(subject: Subject, report: str) -> None:
    scopes = subject.scopes(
        k={"rate": 6, "period_ns": MINUTE, "burst": 6, "tokens": 186, "window_ns": MINUTE}
    )
    assert all(subject.admits(scopes, NOW + second * SECOND, 31) for second in range(0, 60, 10))
    refusal = subject.limiter.take(scopes, NOW + 59 * SECOND, 31)
    assert (refusal.dimension, refusal.permanent) == ("tokens", False)
    assert subject.admits(scopes, NOW + 59 * SECOND + refusal.wait_ns, 31)
    later = NOW + 3 * MINUTE
    assert subject.admits(scopes, later, 31)
    assert subject.remaining(scopes, later) == 186 - 31


@reports("litellm#27001")
def test_rejected_reservations_leave_no_trace(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"rate": 1, "burst": 60, "tokens": 100, "window_ns": MINUTE})
    assert subject.limiter.reserve(scopes, NOW, 60)
    for _ in range(50):
        assert not subject.limiter.reserve(scopes, NOW, 41)
    assert subject.remaining(scopes, NOW) == 40
    assert subject.remaining(scopes, NOW, "requests") == 59
    assert subject.limiter.reserve(scopes, NOW, 40)


@reports("litellm#35098", "TokenHub#102")
def test_cancelled_stream_pays_for_prompt_and_emitted_tokens(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"tokens": 1_000, "window_ns": MINUTE})
    lease = subject.limiter.reserve(scopes, NOW, 500, 1, 120)
    assert subject.limiter.cancel(lease, 40, NOW + SECOND) is True
    assert subject.remaining(scopes, NOW + SECOND) == 1_000 - 160


@reports("limits#362")
@pytest.mark.parametrize("cost", [-5, -1, 2**40 + 1])
def test_impossible_costs_are_errors_before_any_state(
    subject: Subject, report: str, cost: int
) -> None:
    scopes = subject.scopes(g={"rate": 10, "burst": 10, "tokens": 10, "window_ns": MINUTE})
    assert subject.admits(scopes, NOW, 10, 10)
    for tokens, requests in [(cost, 1), (1, cost)]:
        with pytest.raises(ValueError, match="cost"):
            subject.limiter.reserve(scopes, NOW, tokens, requests)
        with pytest.raises(ValueError, match="cost"):
            subject.limiter.take(scopes, NOW, tokens, requests)
    assert not subject.admits(scopes, NOW, 1)


@reports("upstash/ratelimit-js#161", "upstash/ratelimit-py#15")
@pytest.mark.parametrize("dimension", ["tokens", "requests"])
def test_refused_cost_leaves_room_for_a_smaller_one(
    subject: Subject, report: str, dimension: str
) -> None:
    scopes = subject.scopes(g={"rate": 1, "burst": 10, "tokens": 10, "window_ns": MINUTE})

    def asks(amount: int) -> bool:
        requests, tokens = (0, amount) if dimension == "tokens" else (amount, 0)
        return subject.admits(scopes, NOW, tokens, requests)

    assert [asks(8), asks(5), asks(1)] == [True, False, True]
    assert subject.remaining(scopes, NOW, dimension) == 1


@reports("aoai-simulated-api#51", "milvus#25597", "envoyproxy/ratelimit#440")
def test_second_dimension_or_scope_that_rejects_charges_nothing(
    subject: Subject, report: str
) -> None:
    scopes = subject.scopes(
        g={"rate": 1, "burst": 10, "tokens": 100, "window_ns": MINUTE},
        m={"rate": 1, "burst": 10, "tokens": 20, "window_ns": MINUTE, "concurrency": 1},
    )
    first = subject.limiter.reserve(scopes, NOW, 10)
    for tokens, dimension in [(11, "concurrency"), (10, "concurrency")]:
        assert subject.limiter.reserve(scopes, NOW, tokens).dimension == dimension
    assert subject.limiter.settle(first, 10, NOW)
    assert subject.limiter.reserve(scopes, NOW, 11).dimension == "tokens"
    whole = subject.scopes(g={"rate": 1, "burst": 10, "tokens": 100, "window_ns": MINUTE})
    assert subject.remaining(whole, NOW, "requests") == 9
    assert subject.remaining(whole, NOW, "tokens") == 90


@reports("fixed windows, limits 5.8.0")
def test_two_bursts_around_a_boundary_stay_within_one_window(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"tokens": 100, "window_ns": SECOND})
    times = [NOW + at * MILLISECOND for at in range(970, 1_030)]
    admitted = sum(subject.admits(scopes, at, 1) for at in times for _ in range(4))
    assert admitted == 100


@reports("governor#16")
def test_burst_and_rate_together_bound_a_greedy_minute(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"rate": 1_200, "period_ns": MINUTE, "burst": 1_200})
    times = range(NOW, NOW + MINUTE + 1, 10 * MILLISECOND)
    assert subject.admits(scopes, NOW, 0, 1_200)
    admitted = 1_200 + sum(subject.admits(scopes, at) for at in times)
    assert admitted == 2_400


@reports("juju/ratelimit#26", "langchain#24961", "MediaWiki-MCP-Server#557")
def test_clock_set_back_eight_hours_loses_no_more_than_the_wait(
    subject: Subject, report: str
) -> None:
    scopes = subject.scopes(g={"rate": 10, "burst": 10, "tokens": 10, "window_ns": SECOND})
    assert subject.admits(scopes, NOW, 10, 10)
    back = NOW - 8 * HOUR
    assert not subject.admits(scopes, back)
    assert subject.remaining(scopes, back, "requests") == 0
    later = back + 100 * MILLISECOND
    assert [subject.admits(scopes, later, 0) for _ in range(3)] == [True, False, False]


@reports("juju/ratelimit#26")
def test_clock_set_forth_again_refills_nothing(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"rate": 10, "burst": 10, "tokens": 10, "window_ns": SECOND})
    assert subject.admits(scopes, NOW, 10, 10)
    assert not subject.admits(scopes, NOW - 8 * HOUR)
    assert not subject.admits(scopes, NOW + 99 * MILLISECOND)
    assert subject.remaining(scopes, NOW + 99 * MILLISECOND, "tokens") == 0


@reports("redis-cell#13")
def test_sleeping_takers_get_the_rate_and_no_more(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"rate": 100, "burst": 10})
    times = range(NOW, NOW + 10 * SECOND + 1, 7 * MILLISECOND)
    admitted = sum(subject.admits(scopes, at) for at in times)
    assert 1_000 <= admitted <= 1_010


@reports("redis-cell#50")
def test_one_more_than_the_burst_is_refused(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"rate": 6_000, "burst": 6_000})
    answers = [subject.admits(scopes, NOW) for _ in range(6_001)]
    assert answers == [True] * 6_000 + [False]


@reports("redis-cell#56", "flask-limiter#62", "dragonfly#8288")
@pytest.mark.parametrize("start", [0, 1, 123_456_789])
def test_waiting_exactly_as_told_is_enough(subject: Subject, report: str, start: int) -> None:
    scopes = subject.scopes(g={"rate": 3, "burst": 4, "tokens": 100, "window_ns": 7 * SECOND})
    now = NOW + start
    for cost in [70, 20, 30, 100, 1, 99, 64]:
        refusal = subject.limiter.take(scopes, now, cost)
        if refusal is not True:
            assert refusal.wait_ns > 0
            assert not subject.admits(scopes, now + refusal.wait_ns - 1, cost)
            now += refusal.wait_ns
            assert subject.admits(scopes, now, cost)


@reports("redis#14826")
@pytest.mark.parametrize("dimension", ["tokens", "requests"])
def test_whole_capacity_is_granted_in_time_and_one_more_never(
    subject: Subject, report: str, dimension: str
) -> None:
    scopes = subject.scopes(g={"rate": 10, "burst": 10, "tokens": 10, "window_ns": SECOND})

    def ask(amount: int, at: int) -> Any:
        requests, tokens = (0, amount) if dimension == "tokens" else (amount, 0)
        return subject.limiter.take(scopes, at, tokens, requests)

    assert ask(10, NOW) is True
    refusal = ask(10, NOW)
    assert not refusal.permanent
    never = ask(11, NOW)
    assert (never.permanent, never.wait_ns, never.dimension) == (True, 0, dimension)
    assert ask(10, NOW + refusal.wait_ns) is True


@reports("governor#203", "beryl#434")
def test_rate_above_the_clocks_resolution_still_refuses(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"rate": 1_000_000_001, "burst": 1})
    assert subject.admits(scopes, NOW)
    refusal = subject.limiter.take(scopes, NOW)
    assert refusal.wait_ns == 1
    assert subject.admits(scopes, NOW + 1)


@reports("Sentinel#461", "crate ratelimit")
def test_rate_of_zero_refuses_always(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"rate": 0, "burst": 5})
    for now in (0, NOW, 2**63):
        refusal = subject.limiter.reserve(scopes, now)
        assert (refusal.dimension, refusal.permanent) == ("requests", True)
    assert subject.remaining(scopes, 2**63, "requests") == 0


@reports("librefang#2413")
def test_everything_but_a_lease_refuses(subject: Subject, report: str) -> None:
    scopes = subject.scopes(g={"rate": 1, "burst": 1})
    assert bool(subject.limiter.reserve(scopes, NOW)) is True
    for requests in (1, 2):
        assert bool(subject.limiter.reserve(scopes, NOW, 0, requests)) is False
        assert bool(subject.limiter.take(scopes, NOW, 0, requests)) is False
    with pytest.raises(ValueError, match="nothing to reserve"):
        subject.limiter.reserve(scopes, NOW, 0, 0)


@reports("lemmy#4560")
def test_sweep_spares_hot_keys(subject: Subject, report: str) -> None:
    hot = subject.scopes(hot={"rate": 1, "burst": 5, "tokens": 5, "window_ns": HOUR})
    admitted = 0
    for step in range(500):
        now = NOW + step * MILLISECOND
        admitted += subject.admits(hot, now, 1)
        assert subject.admits(subject.scopes(**{f"cold{step}": {"rate": 1_000, "burst": 1}}), now)
    assert admitted == 5


@pytest.mark.parametrize("report", ["PyrateLimiter#156 better-auth#4472 governor#171"])
def test_a_flood_of_keys_stays_within_the_bound_and_is_forgotten(report: str) -> None:
    limiter = _core.Limiter(max_keys=20_000, shards=8)
    quota = _core.Quota(rate=1, burst=1, tokens=10, window_ns=SECOND)
    for number in range(60_000):
        limiter.take(limiter.scopes([(f"k{number}", quota)]), NOW, 1)
        assert limiter.keys <= 20_000
    assert limiter.keys > 15_000
    hot = [limiter.scopes([(f"hot{number}", quota)]) for number in range(64)]
    for step in range(2_000):
        for scopes in hot:
            limiter.take(scopes, NOW + 10 * SECOND + step, 1)
    assert limiter.keys <= 64
