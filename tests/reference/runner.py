"""A model runner without a model: it checks every row against what its pages ought to hold.

The page memory holds the very tokens in place of keys and values, and a token follows from all
tokens before it, so a page that was shared wrongly, overwritten or freed too early shows at once,
and the same sequence generates the same output in every batch.
"""

from __future__ import annotations

import zlib
from array import array
from dataclasses import dataclass

from millstream.engines.torch.batch import Batch, Row
from millstream.types import SamplingParams


def next_token(history: list[int], seed: int, vocabulary: int) -> int:
    """The token that follows ``history``."""
    return zlib.crc32(array("q", [seed, *history]).tobytes()) % vocabulary


@dataclass
class _Slot:
    seed: int
    tokens: list[int]


@dataclass(frozen=True)
class Sampled:
    """The handle of a step that has run."""

    slots: list[int]
    tokens: list[int]

    def ids(self) -> list[int]:
        return self.tokens


class PagedRunner:
    """Slots and page memory; `AssertionError` on any breach of the border's rules."""

    def __init__(
        self,
        num_pages: int,
        *,
        page_size: int = 32,
        max_batch: int = 8,
        vocabulary: int = 1000,
        overlap: bool = False,
    ) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.max_batch = max_batch
        self.overlap = overlap
        self.vocabulary = vocabulary
        self.steps: list[Batch] = []
        self.broken: Exception | None = None
        self._memory = [[-1] * page_size for _ in range(num_pages)]
        self._slots: dict[int, _Slot] = {}
        self._tables: dict[int, list[int]] = {}

    @property
    def open_slots(self) -> int:
        return len(self._slots)

    def open_slot(
        self,
        slot: int,
        params: SamplingParams,
        *,
        seed: int,
        prompt: list[int],
        generated: list[int],
    ) -> None:
        assert 0 <= slot < self.max_batch
        assert slot not in self._slots
        if params.temperature < 0:
            raise ValueError("temperature below 0")
        self._slots[slot] = _Slot(seed, [*prompt, *generated])
        self._tables[slot] = []

    def close_slot(self, slot: int) -> None:
        del self._slots[slot], self._tables[slot]

    def step(self, batch: Batch) -> Sampled:
        self.steps.append(batch)
        if self.broken:
            raise self.broken
        rows = batch.rows
        assert rows
        assert len({row.slot for row in rows}) == len(rows)
        for row in rows:  # as in a layer: every row writes before any row attends
            self._write(row)
        sampling = [row for row in rows if row.sample]
        return Sampled([row.slot for row in sampling], [self._attend(row) for row in sampling])

    def _write(self, row: Row) -> None:
        slot, table, seen = self._slots[row.slot], list(row.block_table), self._tables[row.slot]
        assert table[: len(seen)] == seen, "a table may only grow at its end"
        self._tables[row.slot] = table
        start = row.num_cached_tokens
        tokens = list(row.tokens) or slot.tokens[-1:]
        assert slot.tokens[start : start + len(tokens)] == tokens
        for position, token in enumerate(tokens, start):
            page = self._memory[table[position // self.page_size]]
            page[position % self.page_size] = token
        if row.sample:
            assert start + len(tokens) == len(slot.tokens)

    def _attend(self, row: Row) -> int:
        slot, size = self._slots[row.slot], self.page_size
        held = [
            self._memory[row.block_table[position // size]][position % size]
            for position in range(len(slot.tokens))
        ]
        assert held == slot.tokens
        token = next_token(slot.tokens, slot.seed, self.vocabulary)
        slot.tokens.append(token)
        return token
