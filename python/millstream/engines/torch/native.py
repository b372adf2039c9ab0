"""The CPU side in Rust: a whole Llama step in one call, and paged attention for other models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from millstream import _core
from millstream.engines.torch.model_config import ModelConfig
from millstream.engines.torch.native_weights import NativeWeights
from millstream.engines.torch.plan import Plan
from millstream.engines.torch.weights import Checkpoint

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Sizes of a paged cache."""

    layers: int
    pages: int
    slots: int
    heads: int
    kv_heads: int
    head_dim: int

    @classmethod
    def of(cls, config: ModelConfig, *, num_pages: int, max_batch: int) -> CacheShape:
        """The cache for a model."""
        return cls(
            layers=config.num_layers,
            pages=num_pages,
            slots=max_batch,
            heads=config.num_heads,
            kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
        )


class NativeLlama:
    """A Llama-shaped decoder on the CPU.

    With bfloat16 the cache is bfloat16 and so are plain weights; weights of 4 and 8 bits stay as
    the file has them. Everything between is float32, and a row's result does not depend on the
    other rows of its batch, to the bit.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        num_pages: int,
        max_batch: int,
        dtype: torch.dtype,
        threads: int,
    ) -> None:
        self.config = checkpoint.config
        self.device = torch.device("cpu")
        half = dtype == torch.bfloat16
        weights = NativeWeights(checkpoint, coded=half)
        self._decoder = _core.LlamaDecoder(
            CacheShape.of(self.config, num_pages=num_pages, max_batch=max_batch),
            weights.frame(),
            weights.layers(),
            bfloat16=half,
            threads=threads,
        )

    def extend_pages(self, slot: int, pages: Sequence[int]) -> None:
        """Append pages to a slot's table."""
        self._decoder.extend_pages(slot, list(pages))

    def clear_pages(self, slot: int) -> None:
        """Empty a slot's table."""
        self._decoder.clear_pages(slot)

    def logits(self, ids: torch.Tensor, plan: Plan) -> torch.Tensor:
        """One forward pass: float32 ``[samples, vocab]``."""
        output = torch.empty((len(plan.sample_indexes), self.config.vocab_size))
        self._decoder.logits(_rows(plan), ids.tolist(), plan.sample_indexes, output.numpy())
        return output

    def greedy(self, ids: torch.Tensor, plan: Plan) -> torch.Tensor:
        """Id of each row's greatest logit; the logits themselves are never written down."""
        chosen = self._decoder.greedy(_rows(plan), ids.tolist(), plan.sample_indexes)
        return torch.tensor(chosen, dtype=torch.int64)


class NativePagedAttention:
    """The Rust cache and attention behind models written in torch."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        num_pages: int,
        max_batch: int,
        dtype: torch.dtype,
        threads: int,
    ) -> None:
        self._attention = _core.PagedAttention(
            CacheShape.of(config, num_pages=num_pages, max_batch=max_batch),
            bfloat16=dtype == torch.bfloat16,
            threads=threads,
        )

    def extend_pages(self, slot: int, pages: Sequence[int]) -> None:
        """Append pages to a slot's table."""
        self._attention.extend_pages(slot, list(pages))

    def clear_pages(self, slot: int) -> None:
        """Empty a slot's table."""
        self._attention.clear_pages(slot)

    def begin(self, plan: Plan) -> torch.Tensor:
        """Prepare one step; returns the position of each flat token."""
        self._attention.begin(_rows(plan))
        return torch.tensor(plan.positions(), dtype=torch.int64)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """Store keys and values of this step, then attend causally over each row's pages."""
        output = torch.empty(query.shape)
        self._attention.attend(layer, _array(query), _array(key), _array(value), output.numpy())
        return output.to(query.dtype)


def _array(tensor: torch.Tensor) -> Floats:
    array: Floats = tensor.float().contiguous().numpy()
    return array


def _rows(plan: Plan) -> list[tuple[int, int, int]]:
    return list(zip(plan.slots, plan.starts, plan.counts, strict=True))
