"""All branches of a stream are admitted, or the limits are as if none had asked."""

from __future__ import annotations

import pytest

from millstream.admission import (
    Admission,
    Demand,
    LimitBook,
    Limits,
    MemoryLimiter,
    Refusal,
    RequestRate,
    TokenWindow,
)
from millstream.errors import CostExceedsLimit, EngineUnavailable
from millstream.types import SamplingParams
from tests.unit.admission.parts import admitted, left, left_for
from tests.unit.streams.parts import RESERVED, Bench, ManualEngine

SERVER = Limits(RequestRate(1, burst=3), TokenWindow(100, 1_000), concurrency=3)
MODEL = Limits(RequestRate(1, burst=2), TokenWindow(60, 1_000), concurrency=3)
BOOK = LimitBook(SERVER, models={"m": MODEL})


def demand(model: str, tokens: int) -> Demand:
    return Demand("t", model, tokens)


class AtRest:
    """Limits that nobody has used."""

    def __init__(self) -> None:
        self.limiter = MemoryLimiter(clock=lambda: 0)
        self.admission = Admission(self.limiter, BOOK, clock=lambda: 0)

    def left(self, model: str) -> tuple[int, ...]:
        return left_for(self.limiter, BOOK, "t", model)


async def test_every_branch_gets_a_lease() -> None:
    limits = AtRest()
    leases = await limits.admission.admit([demand("m", 20), demand("other", 30)])
    assert isinstance(leases, list)
    assert [lease.tokens for lease in leases] == [20, 30]
    assert limits.left("m") == (1, 40, 1)
    assert limits.left("other") == (1, 50, 1)


# aoai-simulated-api#51, milvus#25597, envoy ratelimit#440: what had been taken stayed taken.
@pytest.mark.parametrize(
    ("before", "dimension"), [((1, 10), "requests"), ((2, 10), "requests"), ((1, 70), "tokens")]
)
async def test_branches_before_a_refused_one_cost_neither_tokens_nor_requests(
    before: tuple[int, int], dimension: str
) -> None:
    limits = AtRest()
    for _ in range(before[0]):
        admitted(limits.limiter, BOOK.scopes("t", "other"), before[1]).settle(before[1])
    was = limits.left("m"), limits.left("other")
    refusal = await limits.admission.admit([demand("m", 15)] * 2 + [demand("other", 15)])
    assert isinstance(refusal, Refusal)
    assert refusal.dimension == dimension
    assert (limits.left("m"), limits.left("other")) == was
    # The client is told what is left now, not what was while its own branches held some of it.
    assert left(refusal.snapshot) in was


async def test_branches_before_an_impossible_one_cost_nothing() -> None:
    limits = AtRest()
    with pytest.raises(CostExceedsLimit, match="61 tokens"):
        await limits.admission.admit([demand("m", 15), demand("m", 61)])
    with pytest.raises(CostExceedsLimit, match=r"3 requests together.*the model 'm' is 2"):
        await limits.admission.admit([demand("m", 15)] * 3)
    assert limits.left("m") == (2, 60, 3)
    assert limits.left("other") == (3, 100, 3)


async def test_branches_that_no_engine_would_take_cost_nothing() -> None:
    class Half(ManualEngine):
        def submit(self, request: int, *args: object, **kwargs: object) -> None:
            if request == 2:
                raise EngineUnavailable("away")
            super().submit(request, *args, **kwargs)  # type: ignore[arg-type]

    wide = Limits(RequestRate(1, burst=3), TokenWindow(3 * RESERVED, 1_000), concurrency=3)
    bench = Bench(engine=Half(), limits=wide)
    stream = bench.stream(branches=2)
    with pytest.raises(EngineUnavailable):
        stream.start([([1], SamplingParams(max_tokens=1))] * 2)
    assert left_for(bench.limiter, bench.book, "default", "m") == (3, 3 * RESERVED, 3)
