"""Chooses the next token of each row by the row's own parameters.

A row draws one number per token from its seed and the count of its tokens, and looks it up in the
cumulative distribution. So its course depends on nothing else: not on the other rows, not on the
slot, not on a preemption in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import torch

from millstream.engines.torch.penalties import Penalties
from millstream.types import SamplingParams

# Most distributions fit into this many candidates; sorting a whole vocabulary costs milliseconds.
_CANDIDATES = 1024


@dataclass(slots=True)
class _Slot:
    params: SamplingParams
    seed: int
    drawn: int


class Sampler:
    """Sampling state of ``max_batch`` slots."""

    def __init__(self, max_batch: int, vocab_size: int, device: torch.device) -> None:
        self._device = device
        self._slots: list[_Slot | None] = [None] * max_batch
        self._penalties = Penalties(max_batch, vocab_size, device)

    def open(
        self,
        slot: int,
        params: SamplingParams,
        seed: int,
        prompt: Sequence[int],
        generated: Sequence[int],
    ) -> None:
        """Start a sequence, or go on with one that has generated already."""
        self._slots[slot] = _Slot(params, seed, len(generated))
        self._penalties.open(slot, params, prompt, generated)

    def close(self, slot: int) -> None:
        """Forget a sequence."""
        self._slots[slot] = None
        self._penalties.close(slot)

    def all_greedy(self, slots: Sequence[int]) -> bool:
        """Whether the greatest logit of each row is all that is asked for."""
        return all(
            self._state(slot).params.temperature <= 0 for slot in slots
        ) and not self._penalties.any(slots)

    def advance(self, slots: Sequence[int]) -> None:
        """Count a token for each slot, after ``sample`` or a greedy choice elsewhere."""
        for slot in slots:
            self._state(slot).drawn += 1

    def sample(self, logits: torch.Tensor, slots: Sequence[int]) -> torch.Tensor:
        """Choose an id for each row of float32 ``[rows, vocab]``; changes ``logits``."""
        self._penalties.apply(logits, slots)
        chosen = logits.argmax(-1)
        drawn = [row for row, slot in enumerate(slots) if self._state(slot).params.temperature > 0]
        if drawn:
            states = [self._state(slots[row]) for row in drawn]
            indexes = torch.tensor(drawn, device=self._device)
            chosen.index_copy_(0, indexes, self._draw(logits[indexes], states))
        self._penalties.count(slots, chosen)
        return chosen

    def _draw(self, logits: torch.Tensor, states: list[_Slot]) -> torch.Tensor:
        logits.div_(self._column([state.params.temperature for state in states]))
        uniform = self._column([_uniform(state.seed, state.drawn) for state in states])
        if not any(_filters(state.params) for state in states):
            return _look_up(logits.softmax(-1), uniform)
        values, ids = self._candidates(logits, states)
        place = _look_up(self._filtered(values, logits, states), uniform)
        return ids.gather(1, place[:, None]).squeeze(1)

    def _candidates(
        self, logits: torch.Tensor, states: list[_Slot]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits in falling order with their ids: all of them, or as many as the filters keep."""
        # Deciding this needs numbers on the host, for which a GPU would have to be waited for.
        if self._device.type == "cpu" and logits.shape[-1] > _CANDIDATES:
            values, ids = logits.topk(_CANDIDATES, dim=-1)
            if self._suffices(values, logits, states):
                return values, ids
        sorted_values, sorted_ids = logits.sort(dim=-1, descending=True, stable=True)
        return sorted_values, sorted_ids

    def _suffices(self, values: torch.Tensor, logits: torch.Tensor, states: list[_Slot]) -> bool:
        mass = (values.logsumexp(-1) - logits.logsumexp(-1)).exp().tolist()
        least = (values[:, -1] - values[:, 0]).exp().tolist()
        return all(
            0 < state.params.top_k <= _CANDIDATES
            or (state.params.top_p < 1 and state.params.top_p < covered)
            or smallest < state.params.min_p
            for state, covered, smallest in zip(states, mass, least, strict=True)
        )

    def _filtered(
        self, values: torch.Tensor, logits: torch.Tensor, states: list[_Slot]
    ) -> torch.Tensor:
        """Weights of the sorted candidates, 0 where top-k, top-p or min-p leaves them out."""
        width = logits.shape[-1]
        ranks = torch.arange(values.shape[-1], device=self._device)
        top_k = self._column([float(state.params.top_k or width) for state in states])
        kept = values.masked_fill(ranks >= top_k, -torch.inf)
        # Without top-k the whole vocabulary is the denominator, also of the part not sorted.
        total = torch.where(top_k < width, kept.logsumexp(-1, True), logits.logsumexp(-1, True))
        weights = (kept - total).exp()
        before = weights.cumsum(-1) - weights
        top_p = self._column([state.params.top_p for state in states])
        min_p = self._column([state.params.min_p for state in states])
        left_out = ((before >= top_p) & (top_p < 1)) | (weights < min_p * weights[:, :1])
        left_out[:, 0] = False
        return weights.masked_fill_(left_out, 0.0)

    def _column(self, values: list[float]) -> torch.Tensor:
        column = torch.tensor(values, dtype=torch.float32)[:, None]
        return column.to(self._device, non_blocking=True)

    def _state(self, slot: int) -> _Slot:
        state = self._slots[slot]
        if state is None:
            raise RuntimeError(f"slot {slot} is not open")
        return state


def _filters(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1 or params.min_p > 0


def _uniform(seed: int, drawn: int) -> float:
    """A number in [0, 1) that depends on seed and count alone, on every machine the same."""
    digest = blake2b(f"{seed}:{drawn}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 40) / (1 << 24)


def _look_up(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Index of the first entry whose cumulative weight exceeds that part of the whole."""
    # Doubles: in float32 the sum over a vocabulary loses the small weights at its end.
    cumulative = weights.cumsum(-1, dtype=torch.float64)
    wanted = uniform.double() * cumulative[:, -1:]
    place = torch.searchsorted(cumulative, wanted, right=True).squeeze(1)
    return place.clamp_(max=weights.shape[-1] - 1)
