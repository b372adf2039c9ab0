from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

import millstream
from millstream._core import INTER_TOKEN_BOUNDS_NS
from millstream.admission import Dimension
from millstream.admission.queue_observer import WaitEnding
from millstream.assembly.reload.observer import ReloadResult, ReloadSource
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
    names.ADMISSION_WAITS,
    names.CONFIG_RELOADS,
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


@pytest.mark.parametrize(
    "buckets",
    [
        names.TIME_TO_FIRST_TOKEN_BUCKETS,
        names.INTER_TOKEN_BUCKETS,
        names.ADMISSION_WAIT_BUCKETS,
    ],
)
def test_buckets_rise(buckets: tuple[float, ...]) -> None:
    assert sorted(set(buckets)) == list(buckets)


def test_gaps_between_tokens_are_shown_in_the_buckets_in_which_the_log_counts_them() -> None:
    assert tuple(bound / 1e9 for bound in INTER_TOKEN_BOUNDS_NS) == names.INTER_TOKEN_BUCKETS


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (names.WAIT_ENDINGS, WaitEnding),
        (names.RELOAD_SOURCES, ReloadSource),
        (names.RELOAD_RESULTS, ReloadResult),
        (names.DIMENSIONS, Dimension),
    ],
)
def test_labels_are_shown_from_the_start_with_every_value(
    shown: tuple[str, ...], words: object
) -> None:
    assert shown == get_args(words)


def test_the_readme_names_every_metric() -> None:
    readme = (Path(millstream.__file__).parents[2] / "README.md").read_text()
    assert [name for name in NAMES.values() if f"`{name}`" not in readme] == []
