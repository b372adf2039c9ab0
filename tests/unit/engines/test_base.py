"""Less instead of nothing."""

from __future__ import annotations

import pytest

from millstream.engines.base import shortened
from millstream.types import SamplingParams


@pytest.mark.parametrize(
    ("asked", "choices", "prompt", "left", "taken"),
    [
        (100, 1, 10, 60, 50),
        (100, 3, 10, 60, 16),
        (100, 1, 10, 110, 100),
        (100, 1, 10, 500, 100),
        (100, 1, 10, 11, 1),
        # Not one token of each: as asked, so that the limit says what it has to say.
        (100, 1, 10, 10, 100),
        (100, 1, 10, 0, 100),
        (100, 4, 10, 13, 100),
    ],
)
def test_prompt_and_choices_come_to_what_is_left(
    asked: int, choices: int, prompt: int, left: int, taken: int
) -> None:
    params = SamplingParams(max_tokens=asked, n=choices, seed=3)
    assert shortened(params, prompt, left) == SamplingParams(max_tokens=taken, n=choices, seed=3)
