"""Sampling by each row's own parameters, whatever else is in the batch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from millstream.engines.torch import sampler as module
from millstream.engines.torch.sampler import Sampler
from millstream.types import SamplingParams

_VOCAB = 50


def _sampler(vocab: int = _VOCAB) -> Sampler:
    return Sampler(8, vocab, torch.device("cpu"))


def _params(**values: Any) -> SamplingParams:
    return SamplingParams(max_tokens=100, **values)


def _logits(seed: int = 0, vocab: int = _VOCAB) -> torch.Tensor:
    return torch.randn(1, vocab, generator=torch.Generator().manual_seed(seed)) * 2


def _draw(params: SamplingParams, logits: torch.Tensor, count: int, seed: int = 7) -> list[int]:
    sampler = _sampler(logits.shape[-1])
    sampler.open(0, params, seed, [], [])
    drawn = []
    for _ in range(count):
        drawn.extend(sampler.sample(logits.clone(), [0]).tolist())
        sampler.advance([0])
    return drawn


def test_temperature_zero_is_the_greatest_logit() -> None:
    logits = _logits()
    assert _draw(_params(temperature=0), logits, 3) == [int(logits.argmax())] * 3


def test_a_seed_gives_the_same_course_alone_and_in_any_batch() -> None:
    rows = [_logits(seed) for seed in range(20)]
    params = _params(temperature=0.9, top_p=0.95)
    alone = _sampler()
    alone.open(0, params, 42, [], [])
    mixed = _sampler()
    mixed.open(5, params, 42, [], [])
    mixed.open(1, _params(temperature=0), 1, [], [])
    mixed.open(2, _params(temperature=1.4, top_k=3, presence_penalty=0.4), 2, [], [])
    expected, found = [], []
    for row in rows:
        expected.append(int(alone.sample(row.clone(), [0])))
        alone.advance([0])
        together = mixed.sample(torch.cat([_logits(99), row, _logits(98)]), [1, 5, 2])
        found.append(int(together[1]))
        mixed.advance([1, 5, 2])
    assert found == expected


def test_a_preempted_sequence_goes_on_with_its_course() -> None:
    rows = [_logits(seed) for seed in range(12)]
    params = _params(temperature=1.0, frequency_penalty=0.8)

    def course(sampler: Sampler, slot: int, part: list[torch.Tensor]) -> list[int]:
        drawn = []
        for row in part:
            drawn.extend(sampler.sample(row.clone(), [slot]).tolist())
            sampler.advance([slot])
        return drawn

    whole = _sampler()
    whole.open(0, params, 5, [1, 2], [])
    expected = course(whole, 0, rows)
    cut = _sampler()
    cut.open(0, params, 5, [1, 2], [])
    first = course(cut, 0, rows[:5])
    cut.close(0)
    cut.open(3, params, 5, [1, 2], first)
    assert first + course(cut, 3, rows[5:]) == expected


def test_seeds_differ() -> None:
    logits = torch.zeros(1, _VOCAB)
    courses = {tuple(_draw(_params(), logits, 6, seed)) for seed in range(20)}
    assert len(courses) == 20


def test_frequencies_follow_the_distribution() -> None:
    weights = torch.tensor([0.5, 0.3, 0.15, 0.05])
    counts = Counter(_draw(_params(), weights.log()[None], 4_000))
    for token, weight in enumerate(weights.tolist()):
        # Four standard deviations; the seed is fixed, so this cannot fail by chance.
        assert abs(counts[token] - 4_000 * weight) < 4 * (4_000 * weight * (1 - weight)) ** 0.5


def test_temperature_sharpens() -> None:
    logits = torch.tensor([[1.0, 0.0]])
    cold = Counter(_draw(_params(temperature=0.25), logits, 1_000))[0]
    hot = Counter(_draw(_params(temperature=4.0), logits, 1_000))[0]
    assert cold > 960
    assert hot < 620


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ({"top_k": 1}, {0}),
        ({"top_k": 3}, {0, 1, 2}),
        ({"top_p": 0.49}, {0}),
        ({"top_p": 0.51}, {0, 1}),
        ({"top_p": 0.0}, {0}),
        ({"min_p": 0.25}, {0, 1, 2}),
        ({"min_p": 1.0}, {0}),
        # top-p counts within what top-k keeps: 0.5 / 0.8 is already more than 0.6.
        ({"top_k": 2, "top_p": 0.6}, {0}),
        ({"top_k": 3, "min_p": 0.5}, {0, 1}),
    ],
)
def test_filters_keep_exactly_what_they_say(values: dict[str, Any], kept: set[int]) -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert set(_draw(_params(**values), logits, 400)) == kept


@pytest.mark.parametrize(
    "values",
    [{"top_k": 7}, {"top_p": 0.8}, {"min_p": 0.05}, {"top_p": 0.999}, {"top_k": 40, "top_p": 0.9}],
)
def test_a_few_candidates_give_the_same_course_as_the_whole_vocabulary(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]
) -> None:
    logits = _logits(3, vocab=600)
    monkeypatch.setattr(module, "_CANDIDATES", 1_000)
    whole = _draw(_params(**values), logits, 200)
    monkeypatch.setattr(module, "_CANDIDATES", 32)
    assert _draw(_params(**values), logits, 200) == whole


def test_only_rows_without_penalty_and_temperature_are_all_greedy() -> None:
    sampler = _sampler()
    sampler.open(0, _params(temperature=0), 1, [], [])
    sampler.open(1, _params(temperature=0.5), 1, [], [])
    sampler.open(2, _params(temperature=0, presence_penalty=0.1), 1, [], [])
    assert sampler.all_greedy([0])
    assert sampler.all_greedy([])
    assert not sampler.all_greedy([0, 1])
    assert not sampler.all_greedy([0, 2])
    sampler.close(2)
    sampler.open(2, _params(temperature=0), 1, [], [])
    assert sampler.all_greedy([0, 2])


def test_presence_and_frequency_count_generated_tokens_only() -> None:
    logits = torch.tensor([[2.0, 1.5, 0.0, -5.0]])
    drawn = _draw(_params(temperature=0, frequency_penalty=0.4), logits, 5)
    # 2.0 against 1.5, then 1.6, then 1.2 < 1.5, then 1.2 > 1.1, then 0.8 < 1.1.
    assert drawn == [0, 0, 1, 0, 1]
    assert _draw(_params(temperature=0, presence_penalty=0.6), logits, 3) == [0, 1, 0]
    sampler = _sampler(4)
    sampler.open(0, _params(temperature=0, presence_penalty=9.0), 1, [0, 0], [])
    assert sampler.sample(logits.clone(), [0]).tolist() == [0]


def test_repetition_looks_at_the_prompt_and_pushes_down_either_sign() -> None:
    sampler = _sampler(4)
    sampler.open(0, _params(temperature=0, repetition_penalty=2.0), 1, [0], [3])
    logits = torch.tensor([[2.0, 0.9, 0.0, -0.1]])
    sampler.sample(logits, [0])
    assert torch.allclose(logits, torch.tensor([[1.0, 0.9, 0.0, -0.2]]))


def test_a_slot_does_not_inherit_penalties() -> None:
    sampler = _sampler(4)
    params = _params(temperature=0, presence_penalty=5.0)
    logits = torch.tensor([[2.0, 1.0, 0.0, 0.0]])
    sampler.open(0, params, 1, [], [])
    assert sampler.sample(logits.clone(), [0]).tolist() == [0]
    sampler.open(0, params, 1, [], [])
    assert sampler.sample(logits.clone(), [0]).tolist() == [0]


def test_a_slot_that_is_not_open_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="slot 3 is not open"):
        _sampler().sample(_logits(), [3])
