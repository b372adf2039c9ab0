"""Runs a model over mixed batches of decode rows and prefill chunks, and samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from millstream.engines.torch.batch import Batch, Row, StepHandle
from millstream.engines.torch.models import ModelFile
from millstream.types import SamplingParams

__all__ = ["Batch", "ModelRunner", "Row", "StepHandle"]


class ModelRunner:
    """The model, its paged cache and the sampling state of ``max_batch`` slots.

    Not thread-safe: one thread owns it. Order of calls for a sequence: ``open_slot``, any number
    of steps with a row for the slot, ``close_slot``. A preempted sequence is closed and opened
    again, on any slot, with what it generated; its samples go on as if nothing had happened.
    """

    model_name: str
    context_length: int
    """Most positions of one sequence."""
    num_pages: int
    page_size: int
    max_batch: int
    overlap: bool
    """Whether reading ``ids()`` one step late gains anything on this device."""

    @classmethod
    def load(
        cls,
        model: ModelFile,
        *,
        num_pages: int,
        page_size: int = 32,
        max_batch: int = 32,
        device: str = "auto",
        dtype: str = "bfloat16",
        threads: int = 2,
    ) -> ModelRunner:
        """Load weights and allocate the cache; ``device`` "auto" is CUDA where it exists.

        ``num_pages`` counts pages of all sequences together. Raises ``ConfigError``.
        """
        raise NotImplementedError

    def open_slot(
        self,
        slot: int,
        params: SamplingParams,
        *,
        seed: int,
        prompt: Sequence[int],
        generated: Sequence[int] = (),
    ) -> None:
        """Give a slot to a sequence and set its sampling state.

        ``seed`` decides the sequence's whole random course together with the count of generated
        tokens, whatever else is in the batch; the caller derives it per choice from
        ``params.seed`` or draws it once. ``generated`` is what an earlier slot already sampled.
        """
        raise NotImplementedError

    def close_slot(self, slot: int) -> None:
        """Forget the slot's sequence; its pages may be reused at once."""
        raise NotImplementedError

    def step(self, batch: Batch) -> StepHandle:
        """One forward pass over the batch; samples the rows that ask for it."""
        raise NotImplementedError

    def warm_up(self) -> None:
        """Run the shapes of a first request once, so that the first user does not pay for it."""
        raise NotImplementedError


_ = torch
