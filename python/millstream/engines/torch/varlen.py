"""Paged decode by ``torch.nn.attention.varlen``, where this torch and this device can do it.

Kernels differ in the page sizes, types and heads they take, and say so only when they are called.
So one small call is tried when the cache is made and its answer checked; without it the gather of
``attention.py`` serves.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class DecodeRows:
    """One token for each row: its pages, and how many positions it sees."""

    tables: torch.Tensor
    """int32 ``[rows, pages]``."""
    lengths: torch.Tensor
    """int32 ``[rows]``."""
    longest: int


class VarlenDecode:
    """Decode through one call over the block table."""

    def __init__(self, attend: Any) -> None:
        self._attend = attend

    def __call__(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: DecodeRows
    ) -> torch.Tensor:
        """Attend ``[rows, heads, head_dim]`` over pools ``[pages, page_size, kv_heads, …]``."""
        starts = torch.arange(len(query) + 1, dtype=torch.int32, device=query.device)
        answer: torch.Tensor = self._attend(
            query,
            keys,
            values,
            cu_seq_q=starts,
            cu_seq_k=None,
            max_q=1,
            max_k=rows.longest,
            enable_gqa=query.shape[1] != keys.shape[2],
            seqused_k=rows.lengths,
            block_table=rows.tables,
        )
        return answer


def open_varlen(keys: torch.Tensor, heads: int) -> VarlenDecode | None:
    """The fast decode for a pool like ``keys``, or None where it is missing or wrong."""
    if keys.device.type != "cuda" or keys.dtype not in (torch.bfloat16, torch.float16):
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    if "block_table" not in inspect.signature(varlen_attn).parameters:
        return None
    decode = VarlenDecode(varlen_attn)
    return decode if answers_rightly(decode, keys, heads) else None


def answers_rightly(decode: VarlenDecode, pool: torch.Tensor, heads: int) -> bool:
    """Try one call in the pool's form against plain products."""
    _, size, kv_heads, width = pool.shape
    keys, values = torch.randn((2, 3, size, kv_heads, width), device=pool.device).to(pool.dtype)
    query = torch.randn((1, heads, width), device=pool.device).to(pool.dtype)
    tables = torch.tensor([[2, 0]], dtype=torch.int32, device=pool.device)
    length = size + 1
    rows = DecodeRows(tables, torch.tensor([length], dtype=torch.int32, device=pool.device), length)
    try:
        found = decode(query, keys, values, rows)[0].float()
    except (RuntimeError, TypeError, ValueError):
        return False
    group = heads // kv_heads
    key, value = (
        part[[2, 0]].flatten(0, 1)[:length].float().repeat_interleave(group, dim=1)
        for part in (keys, values)
    )
    scores = torch.einsum("hd,thd->ht", query[0].float(), key) * width**-0.5
    expected = torch.einsum("ht,thd->hd", scores.softmax(-1), value)
    return bool(torch.allclose(found, expected, atol=2e-2))
