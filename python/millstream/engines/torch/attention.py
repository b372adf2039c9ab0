"""Paged attention in torch operations, for CUDA and for models that the Rust kernels do not know.

Decode rows are answered together, on CUDA by one call over the block table where torch has it
(``varlen.py``). Elsewhere their pages are gathered and the query heads of a group are
folded into the query length of one batched product (SDPA with ``enable_gqa`` and a mask is 7 to
14 times slower on CPU). Prefill rows are answered one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from millstream.engines.torch.model_config import ModelConfig
from millstream.engines.torch.plan import Plan
from millstream.engines.torch.varlen import DecodeRows, open_varlen


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A prefill row: its flat tokens, its positions, its pages."""

    first: int
    count: int
    start: int
    pages: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Step:
    write_indexes: torch.Tensor
    decode_indexes: torch.Tensor
    decode_pages: torch.Tensor
    decode_rows: DecodeRows
    decode_hidden: torch.Tensor
    """True where a gathered position lies past the row's own, ``[rows, 1, 1, positions]``."""
    chunks: list[_Chunk]


class TorchPagedAttention:
    """Pool tensors ``[pages, page_size, kv_heads, head_dim]`` for each layer, and page tables."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        num_pages: int,
        page_size: int,
        max_batch: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._page_size = page_size
        self._device = device
        self._groups = config.num_heads // config.num_kv_heads
        self._scale = config.head_dim**-0.5
        shape = (num_pages, page_size, config.num_kv_heads, config.head_dim)
        layers = range(config.num_layers)
        self._keys = [torch.zeros(shape, dtype=dtype, device=device) for _ in layers]
        self._values = [torch.zeros(shape, dtype=dtype, device=device) for _ in layers]
        self._varlen = open_varlen(self._keys[0], config.num_heads)
        self._tables: list[list[int]] = [[] for _ in range(max_batch)]
        self._step: _Step | None = None

    def extend_pages(self, slot: int, pages: Sequence[int]) -> None:
        """Append pages to a slot's table."""
        self._tables[slot].extend(pages)

    def clear_pages(self, slot: int) -> None:
        """Empty a slot's table."""
        self._tables[slot].clear()

    def begin(self, plan: Plan) -> torch.Tensor:
        """Prepare one step; returns the position of each flat token."""
        positions = plan.positions()
        decode = [row for row, count in enumerate(plan.counts) if count == 1]
        longest = max((plan.starts[row] + 1 for row in decode), default=0)
        lengths = self._tensor([plan.starts[row] + 1 for row in decode])
        pages = self._padded_tables([plan.slots[row] for row in decode], plan, decode)
        gathered = torch.arange(pages.shape[1] * self._page_size, device=self._device)
        self._step = _Step(
            write_indexes=self._tensor(list(self._write_indexes(plan))),
            decode_indexes=self._tensor(_first_tokens(plan, decode)),
            decode_pages=pages,
            decode_rows=DecodeRows(pages.int(), lengths.int(), longest),
            decode_hidden=(gathered >= lengths[:, None])[:, None, None, :],
            chunks=list(self._chunks(plan)),
        )
        return self._tensor(positions)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """Store keys and values of this step, then attend causally over each row's pages."""
        if self._step is None:
            raise RuntimeError("begin() comes before attend()")
        step, keys, values = self._step, self._keys[layer], self._values[layer]
        keys.view(-1, *key.shape[1:]).index_copy_(0, step.write_indexes, key)
        values.view(-1, *value.shape[1:]).index_copy_(0, step.write_indexes, value)
        output = torch.empty_like(query)
        if len(step.decode_indexes):
            answer = self._decode(query[step.decode_indexes], keys, values, step)
            output.index_copy_(0, step.decode_indexes, answer)
        for chunk in step.chunks:
            rows = slice(chunk.first, chunk.first + chunk.count)
            output[rows] = self._prefill(query[rows], keys, values, chunk)
        return output

    def _decode(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, step: _Step
    ) -> torch.Tensor:
        if self._varlen is not None:
            return self._varlen(query, keys, values, step.decode_rows)
        rows, _, width = query.shape
        folded = query.view(rows, -1, self._groups, width)
        key = keys[step.decode_pages].flatten(1, 2).permute(0, 2, 3, 1)
        value = values[step.decode_pages].flatten(1, 2).transpose(1, 2)
        scores = (folded @ key).float() * self._scale
        weights = scores.masked_fill_(step.decode_hidden, -torch.inf).softmax(-1)
        answer = torch.matmul(weights.to(query.dtype), value)
        return answer.view_as(query)

    def _prefill(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, chunk: _Chunk
    ) -> torch.Tensor:
        length = chunk.start + chunk.count
        count, _, width = query.shape
        folded = query.view(count, -1, self._groups, width).permute(1, 2, 0, 3)
        key = keys[chunk.pages].flatten(0, 1)[:length].permute(1, 2, 0)[:, None]
        value = values[chunk.pages].flatten(0, 1)[:length].transpose(0, 1)[:, None]
        scores = (folded @ key).float() * self._scale
        future = torch.ones(count, length, dtype=torch.bool, device=query.device)
        future = future.triu_(chunk.start + 1)
        weights = scores.masked_fill_(future, -torch.inf).softmax(-1)
        answer = torch.matmul(weights.to(query.dtype), value)
        return answer.permute(2, 0, 1, 3).reshape(query.shape)

    def _write_indexes(self, plan: Plan) -> Iterator[int]:
        size = self._page_size
        for slot, start, count in zip(plan.slots, plan.starts, plan.counts, strict=True):
            table = self._tables[slot]
            for position in range(start, start + count):
                yield table[position // size] * size + position % size

    def _padded_tables(self, slots: list[int], plan: Plan, rows: list[int]) -> torch.Tensor:
        used = [self._pages_for(plan.starts[row] + 1) for row in rows]
        width = max(used, default=0)
        tables = [
            self._tables[slot][:count] + [0] * (width - count)
            for slot, count in zip(slots, used, strict=True)
        ]
        return self._tensor(tables).view(len(slots), width)

    def _chunks(self, plan: Plan) -> Iterator[_Chunk]:
        first = 0
        for slot, start, count in zip(plan.slots, plan.starts, plan.counts, strict=True):
            if count > 1:
                pages = self._tables[slot][: self._pages_for(start + count)]
                yield _Chunk(first, count, start, self._tensor(pages))
            first += count

    def _pages_for(self, tokens: int) -> int:
        return -(-tokens // self._page_size)

    def _tensor(self, values: Sequence[int] | Sequence[Sequence[int]]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64).to(self._device, non_blocking=True)


def _first_tokens(plan: Plan, rows: list[int]) -> list[int]:
    firsts, total = [], 0
    for count in plan.counts:
        firsts.append(total)
        total += count
    return [firsts[row] for row in rows]
