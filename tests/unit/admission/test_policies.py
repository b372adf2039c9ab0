from __future__ import annotations

from fractions import Fraction

import pytest

from millstream._core import Quota
from millstream.admission import (
    Limits,
    RequestRate,
    TokenWindow,
    estimated_cost,
)
from millstream.errors import ConfigError


@pytest.mark.parametrize(
    ("per_second", "exact"),
    [(50, Fraction(50)), (0.1, Fraction(1, 10)), (2.5, Fraction(5, 2)), (0, Fraction(0))],
)
def test_rate_is_the_decimal_number_that_was_written(per_second: float, exact: Fraction) -> None:
    assert RequestRate(per_second, burst=1).fraction == exact


def test_limits_become_one_quota() -> None:
    limits = Limits(RequestRate(0.5, 3), TokenWindow(5_000, 100), 64)
    assert limits.quota() == Quota(
        rate=1,
        period_ns=2_000_000_000,
        burst=3,
        tokens=5_000,
        window_ns=100_000_000,
        concurrency=64,
    )
    assert Limits().quota() == Quota()


@pytest.mark.parametrize(
    "limits",
    [
        Limits(requests=RequestRate(-1, 1)),
        Limits(requests=RequestRate(1, -1)),
        Limits(requests=RequestRate(1, 2**40 + 1)),
        Limits(tokens=TokenWindow(10, 0)),
        Limits(tokens=TokenWindow(-1, 1)),
        Limits(concurrency=-1),
    ],
    ids=repr,
)
def test_limits_out_of_range_are_a_configuration_error(limits: Limits) -> None:
    with pytest.raises(ConfigError, match="limits"):
        limits.quota()


@pytest.mark.parametrize(
    ("max_tokens", "choices", "cost"), [(50, 1, 150), (50, 3, 250), (0, 1, 100)]
)
def test_estimate_is_the_prompt_and_what_may_be_generated(
    max_tokens: int, choices: int, cost: int
) -> None:
    assert estimated_cost(100, max_tokens, choices) == cost
