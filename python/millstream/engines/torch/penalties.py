"""Presence, frequency and repetition penalties, from token counts kept on the device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from millstream.types import SamplingParams


class Penalties:
    """Counts of ``max_batch`` slots; memory is taken when a request asks for a penalty first.

    Presence and frequency look at generated tokens (as OpenAI defines them), repetition at the
    prompt too (as transformers does).
    """

    def __init__(self, max_batch: int, vocab_size: int, device: torch.device) -> None:
        self._shape = (max_batch, vocab_size)
        self._device = device
        self._params: dict[int, SamplingParams] = {}
        self._generated: torch.Tensor | None = None
        self._prompt: torch.Tensor | None = None

    def open(
        self, slot: int, params: SamplingParams, prompt: Sequence[int], generated: Sequence[int]
    ) -> None:
        """Start counting for a slot if its parameters ask for it."""
        self.close(slot)
        if not _asked(params):
            return
        self._params[slot] = params
        counts, seen = self._tables()
        counts[slot].zero_()
        seen[slot].zero_()
        seen[slot, self._index(prompt)] = True
        tokens = self._index(generated)
        counts[slot].scatter_add_(0, tokens, torch.ones_like(tokens, dtype=counts.dtype))

    def close(self, slot: int) -> None:
        """Stop counting for a slot."""
        self._params.pop(slot, None)

    def any(self, slots: Sequence[int]) -> bool:
        """Whether a penalty applies to one of the slots."""
        return bool(self._params) and any(slot in self._params for slot in slots)

    def apply(self, logits: torch.Tensor, slots: Sequence[int]) -> None:
        """Change the rows of the slots that have penalties."""
        rows = self._rows(slots)
        if not rows:
            return
        params = [self._params[slots[row]] for row in rows]
        row_index, slot_index = self._index(rows), self._index([slots[row] for row in rows])
        all_counts, all_seen = self._tables()
        counts = all_counts[slot_index].float()
        changed = logits[row_index]
        repetition = self._column([entry.repetition_penalty for entry in params])
        repeated = torch.where(changed > 0, changed / repetition, changed * repetition)
        changed = torch.where(all_seen[slot_index] | (counts > 0), repeated, changed)
        changed -= counts * self._column([entry.frequency_penalty for entry in params])
        changed -= (counts > 0) * self._column([entry.presence_penalty for entry in params])
        logits.index_copy_(0, row_index, changed)

    def count(self, slots: Sequence[int], chosen: torch.Tensor) -> None:
        """Note the chosen ids of the slots that have penalties."""
        rows = self._rows(slots)
        if not rows:
            return
        counts, _ = self._tables()
        slot_index = self._index([slots[row] for row in rows])
        counts[slot_index, chosen[self._index(rows)]] += 1

    def _rows(self, slots: Sequence[int]) -> list[int]:
        if not self._params:
            return []
        return [row for row, slot in enumerate(slots) if slot in self._params]

    def _tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        if self._generated is None or self._prompt is None:
            self._generated = torch.zeros(self._shape, dtype=torch.int32, device=self._device)
            self._prompt = torch.zeros(self._shape, dtype=torch.bool, device=self._device)
        return self._generated, self._prompt

    def _index(self, values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64).to(self._device, non_blocking=True)

    def _column(self, values: list[float]) -> torch.Tensor:
        column = torch.tensor(values, dtype=torch.float32)[:, None]
        return column.to(self._device, non_blocking=True)


def _asked(params: SamplingParams) -> bool:
    return (
        params.presence_penalty != 0
        or params.frequency_penalty != 0
        or params.repetition_penalty != 1
    )
