"""What generates tokens on the CPU: our runner, and transformers in its two ways."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaForCausalLM

from millstream.engines.torch.batch import Batch, Row
from millstream.engines.torch.models import resolve_model
from millstream.engines.torch.runner import ModelRunner
from millstream.types import SamplingParams
from tests.engine_models import packaged_as_transformers

THREADS = 2
MODEL = "smollm2-135m-instruct"
Prompts = Sequence[list[int]]
Generate = Callable[[Prompts, int], list[list[int]]]
"""Greedy: so many tokens for each prompt."""


def ours(max_batch: int, tokens_each: int, device: str = "cpu") -> Generate:
    """Our runner in a plain loop: all prompts in the first step, then decode steps."""
    pages = -(-tokens_each // 32)
    runner = ModelRunner.load(
        resolve_model(MODEL),
        num_pages=max_batch * pages,
        max_batch=max_batch,
        device=device,
        dtype="bfloat16",
        threads=THREADS,
    )
    runner.warm_up()

    def generate(prompts: Prompts, count: int) -> list[list[int]]:
        params = SamplingParams(max_tokens=count, temperature=0)
        tables = [range(slot * pages, (slot + 1) * pages) for slot in range(len(prompts))]
        for slot, prompt in enumerate(prompts):
            runner.open_slot(slot, params, seed=0, prompt=prompt)
        rows = [Row(slot, tables[slot], 0, prompt) for slot, prompt in enumerate(prompts)]
        columns = [runner.step(Batch(rows)).ids()]
        for step in range(count - 1):
            rows = [
                Row(slot, tables[slot], len(prompt) + step) for slot, prompt in enumerate(prompts)
            ]
            columns.append(runner.step(Batch(rows)).ids())
        for slot in range(len(prompts)):
            runner.close_slot(slot)
        return [list(row) for row in zip(*columns, strict=True)]

    return generate


def padded_generate(model: LlamaForCausalLM) -> Generate:
    """``generate`` over one left-padded batch, SDPA."""

    def generate(prompts: Prompts, count: int) -> list[list[int]]:
        width = max(map(len, prompts))
        ids = torch.tensor([[2] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        with torch.inference_mode():
            whole = model.generate(
                ids, attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=2
            )
        rows: list[list[int]] = whole[:, width:].tolist()
        return rows

    return generate


def continuous_batching(model: LlamaForCausalLM, max_batch: int, tokens_each: int) -> Generate:
    """transformers' continuous batching: 32-token pages, room for all, 1,024 tokens a step."""
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.ERROR)
    pages = -(-tokens_each // 32)
    settings = ContinuousBatchingConfig(
        page_size=32,
        num_blocks=max_batch * (pages + 1) + 8,
        max_batch_tokens=1024,
        allow_block_sharing=False,
    )

    def generate(prompts: Prompts, count: int) -> list[list[int]]:
        options = GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=count, do_sample=False, eos_token_id=-1, pad_token_id=2
        )
        answers = model.generate_batch(
            inputs=list(prompts),
            generation_config=options,
            continuous_batching_config=settings,
            persistent_manager=True,
            warmup=False,
        )
        ordered = sorted(answers.values(), key=lambda answer: _number(answer.request_id))
        return [list(answer.generated_tokens) for answer in ordered]

    return generate


def _number(request_id: str) -> int:
    return int(request_id.rpartition("_")[2])


def transformers_model() -> LlamaForCausalLM:
    """The same weights in bfloat16 in transformers' class."""
    return packaged_as_transformers(torch.bfloat16)
