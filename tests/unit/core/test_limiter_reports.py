"""Bugs that other limiters were reported for, with the right answers; the twin is held to them too.

What can be told by one caller's calls is a trace in `tests.reference.limiter_reports`; here are the
traces, and what needs many keys or no clock's limits. Races are in `test_limiter`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream import _core
from tests.reference import limiter as twin
from tests.reference.limiter_calls import Performer
from tests.reference.limiter_key import Quota
from tests.reference.limiter_reports import REPORTS, SECOND
from tests.reference.limiter_traces import (
    ORIGIN_NS,
    Answer,
    Call,
    Counted,
    Left,
    Refused,
    Step,
    Trace,
    drive,
    drive_async,
)


def rust() -> Performer:
    return Performer(_core.Limiter())


def plain() -> Performer:
    return Performer(twin.Limiter(), lambda quota: quota)


@pytest.mark.parametrize("origin_ns", [ORIGIN_NS, ORIGIN_NS + 123_456_789], ids=["even", "odd"])
@pytest.mark.parametrize("performer", [rust, plain])
@pytest.mark.parametrize("trace", REPORTS, ids=lambda trace: trace.id)
def test_report(trace: Trace, performer: Callable[[], Performer], origin_ns: int) -> None:
    drive(trace, performer(), origin_ns=origin_ns)


async def test_a_trace_is_played_as_well_on_a_limiter_that_is_awaited() -> None:
    calls: list[Call] = []
    perform = rust()

    async def awaited(call: Call) -> Answer:
        calls.append(call)
        return perform(call)

    for trace in REPORTS[:2]:
        await drive_async(trace, awaited)
    assert len(calls) == 6 + 11


bucket = {"g": Quota(rate=1, burst=2)}


@pytest.mark.parametrize(
    "step",
    [
        Step(0, "take", {}, Refused()),
        Step(0, "take", {"requests": 3}, True),
        Step(0, "take", {"requests": 3}, Refused("tokens")),
        Step(0, "take", {"requests": 3}, Refused("requests", permanent=False)),
        Step(0, "take", {"requests": 3}, Refused("requests", wait_ns=5)),
        Step(0, "take", {"requests": -1}, True),
        Step(0, "take", {}, ValueError),
        Step(0, "peek", {}, Left(requests=1)),
        Step((0, 0, 0), "take", {}, Counted(3, 3)),
        Step((0, 0, 0), "take", {}, Counted(0, 1)),
        Step((0, 0, 0), "take", {}, True),
        Step(0, "retry", {}, True),
    ],
    ids=str,
)
def test_a_wrong_answer_is_found(step: Step) -> None:
    trace = Trace("wrong", (), bucket, (step,))
    with pytest.raises(AssertionError, match="wrong"):
        drive(trace, rust())


@pytest.mark.parametrize("answer", [True, Refused("requests", "g", False, SECOND)], ids=str)
def test_a_wrong_wait_is_found(answer: Answer) -> None:
    steps = (Step(0, "take", {"requests": 2}, Refused()), Step(0, "retry", {}, True))
    answers = iter([Refused("requests", "g", False, SECOND), answer, answer])
    with pytest.raises(AssertionError, match="wait"):
        drive(Trace("wrong", (), bucket, steps), lambda _: next(answers))


# Sentinel#461: a rate of 0 at the ends of the clock.
@pytest.mark.parametrize("limiter", [_core.Limiter(), twin.Limiter()], ids=["rust", "twin"])
@pytest.mark.parametrize("now_ns", [0, 2**64 - 1])
def test_a_rate_of_zero_refuses_at_the_ends_of_the_clock(limiter: Any, now_ns: int) -> None:
    quota = _core.Quota if isinstance(limiter, _core.Limiter) else Quota
    refusal = limiter.reserve(limiter.scopes([("g", quota(rate=0, burst=5))]), now_ns)
    assert (refusal.dimension, refusal.permanent) == ("requests", True)


# PyrateLimiter#156 better-auth#4472 governor#171
def test_a_flood_of_keys_stays_within_the_bound_and_is_forgotten() -> None:
    limiter = _core.Limiter(max_keys=20_000, shards=8)
    quota = _core.Quota(rate=1, burst=1, tokens=10, window_ns=SECOND)
    for number in range(60_000):
        limiter.take(limiter.scopes([(f"k{number}", quota)]), ORIGIN_NS, 1)
        assert limiter.keys <= 20_000
    assert limiter.keys > 15_000
    hot = [limiter.scopes([(f"hot{number}", quota)]) for number in range(64)]
    for step in range(2_000):
        for scopes in hot:
            limiter.take(scopes, ORIGIN_NS + 10 * SECOND + step, 1)
    assert limiter.keys <= 64
