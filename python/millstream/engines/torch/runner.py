"""Runs a model over mixed batches of decode rows and prefill chunks, and samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from millstream.engines.torch.batch import Batch, Row, StepHandle
from millstream.engines.torch.decoder import Decoder
from millstream.engines.torch.load import load_decoder
from millstream.engines.torch.models import ModelFile
from millstream.engines.torch.offload import Offload, open_offload
from millstream.engines.torch.plan import Plan
from millstream.engines.torch.sampler import Sampler
from millstream.types import SamplingParams

__all__ = ["Batch", "ModelRunner", "Row", "StepHandle"]


class ModelRunner:
    """A model, its paged cache and the sampling state of ``max_batch`` slots.

    Not thread-safe: one thread owns it. Order of calls for a sequence: ``open_slot``, any number
    of steps with a row for the slot, ``close_slot``. A preempted sequence is closed and opened
    again, on any slot, with what it generated; its samples go on as if nothing had happened.
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        model_name: str,
        num_pages: int,
        page_size: int,
        max_batch: int,
        offload: Offload | None = None,
    ) -> None:
        self.model_name = model_name
        self.context_length = decoder.config.context_length
        """Most positions of one sequence."""
        self.vocabulary_size = decoder.config.vocab_size
        """Ids from 0 that can be embedded and sampled."""
        self.num_pages = num_pages
        self.page_size = page_size
        self.max_batch = max_batch
        self.overlap = decoder.device.type == "cuda"
        """Whether reading ``ids()`` one step late gains anything on this device."""
        self._decoder = decoder
        self._sampler = Sampler(max_batch, decoder.config.vocab_size, decoder.device)
        self._offload = offload or open_offload(max_batch, decoder.device)
        self._last = torch.zeros(max_batch, dtype=torch.int64, device=decoder.device)
        self._known_pages = [0] * max_batch

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

        ``num_pages`` counts pages of all sequences together, page numbers start at 0. ``dtype``
        is that of weights and cache: bfloat16, float32 or, on CUDA, float16. Sets torch's thread
        count for the whole process. Raises ``ConfigError``.
        """
        decoder = load_decoder(
            model,
            num_pages=num_pages,
            page_size=page_size,
            max_batch=max_batch,
            device=device,
            dtype=dtype,
            threads=threads,
        )
        return cls(
            decoder,
            model_name=model.name,
            num_pages=num_pages,
            page_size=page_size,
            max_batch=max_batch,
        )

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
        self.close_slot(slot)
        self._sampler.open(slot, params, seed, prompt, generated)

    def close_slot(self, slot: int) -> None:
        """Forget the slot's sequence; its pages may be given to another at once."""
        self._sampler.close(slot)
        self._decoder.clear_pages(slot)
        self._known_pages[slot] = 0

    @torch.inference_mode()
    def step(self, batch: Batch) -> StepHandle:
        """One forward pass over the batch; samples the rows that ask for it."""
        self._note_pages(batch)
        plan = Plan.of(batch)
        ids = self._input_ids(plan)
        slots = plan.sample_slots
        if self._sampler.all_greedy(slots):
            chosen = self._decoder.greedy(ids, plan)
        else:
            chosen = self._sampler.sample(self._decoder.logits(ids, plan), slots)
        self._sampler.advance(slots)
        self._last[self._index(slots)] = chosen
        return self._offload.send(chosen, slots)

    def warm_up(self) -> None:
        """Compute a prompt and a token once, so that the first user does not pay for it.

        Uses page 0 and slot 0, which must be free; leaves both free.
        """
        self.open_slot(0, SamplingParams(max_tokens=1, temperature=0), seed=0, prompt=())
        tokens = min(self.page_size, self.context_length) - 1
        for row in (Row(0, (0,), 0, (0,) * tokens), Row(0, (0,), tokens)):
            self.step(Batch((row,))).ids()
        self.close_slot(0)

    def _note_pages(self, batch: Batch) -> None:
        for row in batch.rows:
            known = self._known_pages[row.slot]
            if len(row.block_table) > known:
                self._decoder.extend_pages(row.slot, row.block_table[known:])
                self._known_pages[row.slot] = len(row.block_table)

    def _input_ids(self, plan: Plan) -> torch.Tensor:
        ids = self._index(plan.host_ids)
        if plan.decode_slots:
            ids[self._index(plan.decode_indexes)] = self._last[self._index(plan.decode_slots)]
        return ids

    def _index(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64).to(self._decoder.device, non_blocking=True)
