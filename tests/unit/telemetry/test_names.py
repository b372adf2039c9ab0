from __future__ import annotations

import pytest

from millstream._core import INTER_TOKEN_BOUNDS_NS
from millstream.telemetry import names

NAMES = {
    key: value
    for key, value in vars(names).items()
    if isinstance(value, str) and value.startswith("millstream_")
}
COUNTERS = {
    names.REQUESTS,
    names.TOKENS,
    names.PARTIAL_TOKENS,
    names.LIMITER_REFUSALS,
    names.HUB_DROPPED,
    names.STORE_ERRORS,
    names.STORE_ENTRIES,
    names.STORE_WRITTEN_BYTES,
}


def test_every_name_has_a_help_text() -> None:
    assert set(NAMES.values()) == set(names.HELP)


@pytest.mark.parametrize("name", NAMES.values())
def test_total_ends_the_name_of_a_counter_and_of_nothing_else(name: str) -> None:
    assert name.endswith("_total") == (name in COUNTERS)


@pytest.mark.parametrize("buckets", [names.TIME_TO_FIRST_TOKEN_BUCKETS, names.INTER_TOKEN_BUCKETS])
def test_buckets_rise(buckets: tuple[float, ...]) -> None:
    assert sorted(set(buckets)) == list(buckets)


def test_gaps_between_tokens_are_shown_in_the_buckets_in_which_the_log_counts_them() -> None:
    assert tuple(bound / 1e9 for bound in INTER_TOKEN_BOUNDS_NS) == names.INTER_TOKEN_BUCKETS
