"""All branches of a stream are admitted, or the limits are as if none had asked."""

from __future__ import annotations

import pytest

from millstream.admission import Lease, Limits, MemoryLimiter, Refusal, RequestRate, TokenWindow
from millstream.errors import CostExceedsLimit, EngineUnavailable
from millstream.streams.admittance import Demand, admit_all
from millstream.types import SamplingParams
from tests.unit.streams.parts import RESERVED, Bench, ManualEngine

SERVER = Limits(RequestRate(1, burst=3), TokenWindow(100, 1_000), concurrency=3)
MODEL = Limits(RequestRate(1, burst=2), TokenWindow(60, 1_000), concurrency=3)


def limiter_at_rest() -> MemoryLimiter:
    return MemoryLimiter(SERVER, {"m": MODEL}, clock=lambda: 0)


def left(limiter: MemoryLimiter, model: str) -> tuple[int, ...]:
    snapshot = limiter.peek(model)
    meters = (snapshot.requests, snapshot.tokens, snapshot.concurrency)
    return tuple(meter.remaining for meter in meters if meter is not None)


def test_every_branch_gets_a_lease() -> None:
    limiter = limiter_at_rest()
    leases = admit_all(limiter, [Demand("m", 20), Demand("other", 30)])
    assert isinstance(leases, list)
    assert [lease.tokens for lease in leases] == [20, 30]
    assert left(limiter, "m") == (1, 40, 1)
    assert left(limiter, "other") == (1, 50, 1)


@pytest.mark.parametrize(
    ("before", "dimension"), [((1, 10), "requests"), ((2, 10), "requests"), ((1, 70), "tokens")]
)
def test_branches_before_a_refused_one_cost_neither_tokens_nor_requests(
    before: tuple[int, int], dimension: str
) -> None:
    limiter = limiter_at_rest()
    for _ in range(before[0]):
        earlier = limiter.admit("other", before[1])
        assert isinstance(earlier, Lease)
        earlier.settle(before[1])
    was = left(limiter, "m"), left(limiter, "other")
    refusal = admit_all(limiter, [Demand("m", 15)] * 2 + [Demand("other", 15)])
    assert isinstance(refusal, Refusal)
    assert refusal.dimension == dimension
    assert (left(limiter, "m"), left(limiter, "other")) == was


def test_branches_before_an_impossible_one_cost_nothing() -> None:
    limiter = limiter_at_rest()
    with pytest.raises(CostExceedsLimit, match="61 tokens"):
        admit_all(limiter, [Demand("m", 15), Demand("m", 61)])
    with pytest.raises(CostExceedsLimit, match="3 requests together"):
        admit_all(limiter, [Demand("m", 15)] * 3)
    assert left(limiter, "m") == (2, 60, 3)
    assert left(limiter, "other") == (3, 100, 3)


def test_branches_that_no_engine_would_take_cost_nothing() -> None:
    class Half(ManualEngine):
        def submit(self, request: int, *args: object, **kwargs: object) -> None:
            if request == 2:
                raise EngineUnavailable("away")
            super().submit(request, *args, **kwargs)  # type: ignore[arg-type]

    wide = Limits(RequestRate(1, burst=3), TokenWindow(3 * RESERVED, 1_000), concurrency=3)
    bench = Bench(engine=Half(), limiter=MemoryLimiter(wide, clock=lambda: 0))
    stream = bench.stream(branches=2)
    with pytest.raises(EngineUnavailable):
        stream.start([([1], SamplingParams(max_tokens=1))] * 2)
    assert left(bench.limiter, "m") == (3, 3 * RESERVED, 3)
