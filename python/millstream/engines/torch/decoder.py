"""What the runner needs of a model with its paged cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from millstream.engines.torch.model_config import ModelConfig
from millstream.engines.torch.plan import Plan


class PageTables(Protocol):
    """Which pages a slot's sequence lies in, in order."""

    def extend_pages(self, slot: int, pages: Sequence[int]) -> None:
        """Append pages to a slot's table."""

    def clear_pages(self, slot: int) -> None:
        """Empty a slot's table."""


class PagedAttention(PageTables, Protocol):
    """A paged cache and attention over it, for models written in torch."""

    def begin(self, plan: Plan) -> torch.Tensor:
        """Prepare one step; returns the position of each flat token, int64 on the device."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """Store ``[tokens, kv_heads, head_dim]`` keys and values, attend causally.

        ``query`` and the result are ``[tokens, heads, head_dim]``.
        """


class Decoder(PageTables, Protocol):
    """A decoder-only model over its own paged cache."""

    config: ModelConfig
    device: torch.device

    def logits(self, ids: torch.Tensor, plan: Plan) -> torch.Tensor:
        """One forward pass over flat int64 ids: float32 ``[samples, vocab]``.

        Without rows that sample it only fills the cache and the result has no rows.
        """

    def greedy(self, ids: torch.Tensor, plan: Plan) -> torch.Tensor:
        """As ``logits``, but the id of each row's greatest logit, the lowest id of equals."""
