"""Run by ``benches/gpu/run``: what the engine does on a CUDA device.

Uses the packaged model where it is installed, otherwise random weights in its exact shape: the
speed is the same, and correctness is agreement with transformers either way.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import torch

from millstream.engines.torch.batch import Batch, Row
from millstream.engines.torch.load import load_decoder
from millstream.engines.torch.models import ModelFile, resolve_model
from millstream.engines.torch.offload import Handle, Offload, open_offload
from millstream.engines.torch.runner import ModelRunner
from millstream.errors import ConfigError
from millstream.types import SamplingParams
from tests.engine_models import as_transformers, write_tiny_llama

PAGE, PAGES_EACH, MAX_BATCH = 32, 16, 128
SHAPE_OF_THE_PACKAGED = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "rope_theta": 100000.0,
    "tie_word_embeddings": True,
}


class BlockingOffload:
    """What the offload replaces: ``.cpu()`` at the end of each step."""

    def send(self, ids: torch.Tensor, slots: list[int]) -> Handle:
        """Copy and wait."""
        return Handle(slots, ids.cpu(), None)


@contextmanager
def model_file() -> Iterator[ModelFile]:
    """The packaged model, or one of its shape."""
    try:
        yield resolve_model("smollm2-135m-instruct")
    except ConfigError as error:
        print(f"random weights, because {error}")
        with tempfile.TemporaryDirectory() as folder:
            yield write_tiny_llama(Path(folder), **SHAPE_OF_THE_PACKAGED)


def load(model: ModelFile, dtype: str, offload: Offload | None = None) -> ModelRunner:
    """A runner on the device."""
    pages = PAGES_EACH * MAX_BATCH
    decoder = load_decoder(
        model,
        num_pages=pages,
        page_size=PAGE,
        max_batch=MAX_BATCH,
        device="cuda",
        dtype=dtype,
        threads=4,
    )
    return ModelRunner(
        decoder,
        model_name=model.name,
        num_pages=pages,
        page_size=PAGE,
        max_batch=MAX_BATCH,
        offload=offload,
    )


def generate(runner: ModelRunner, prompts: list[list[int]], count: int) -> list[list[int]]:
    """Greedy tokens of all prompts together; ids are read one step late."""
    params = SamplingParams(max_tokens=count, temperature=0)
    tables = [range(slot * PAGES_EACH, (slot + 1) * PAGES_EACH) for slot in range(len(prompts))]
    for slot, prompt in enumerate(prompts):
        runner.open_slot(slot, params, seed=0, prompt=prompt)
    earlier = runner.step(
        Batch([Row(slot, tables[slot], 0, prompt) for slot, prompt in enumerate(prompts)])
    )
    columns = []
    for step in range(count - 1):
        rows = [Row(slot, tables[slot], len(ids) + step) for slot, ids in enumerate(prompts)]
        handle = runner.step(Batch(rows))
        columns.append(earlier.ids())
        earlier = handle
    columns.append(earlier.ids())
    for slot in range(len(prompts)):
        runner.close_slot(slot)
    return [list(row) for row in zip(*columns, strict=True)]


def make_prompts(count: int) -> list[list[int]]:
    """Prompts of 20 to 147 tokens."""
    return [
        [(7 * place + number) % 4000 + 20 for place in range(20 + number)]
        for number in range(count)
    ]


def correctness(model: ModelFile) -> None:
    """Float32 on the device against transformers' ``generate``, token for token."""
    prompts = make_prompts(16)
    peer = as_transformers(model, torch.float32).to("cuda")  # type: ignore[arg-type]
    expected = []
    for prompt in prompts:
        ids = torch.tensor([prompt], device="cuda")
        with torch.inference_mode():
            whole = peer.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=24,
                do_sample=False,
                pad_token_id=2,
            )
        expected.append(whole[0, len(prompt) :].tolist())
    runner = load(model, "float32")
    alone = [generate(runner, [prompt], 24)[0] for prompt in prompts]
    mixed = generate(runner, prompts, 24)
    if alone != expected or mixed != expected:
        wrong = [number for number in range(16) if alone[number] != expected[number]]
        raise SystemExit(f"FAILED: differs from transformers; alone in prompts {wrong}")
    print("correct: 16 prompts equal transformers token for token, alone and mixed, float32")


def speed(model: ModelFile) -> None:
    """Tokens per second by streams, with the offload and with ``.cpu()`` in turns."""
    device = torch.device("cuda")
    runners = {
        "offload": load(model, "bfloat16", open_offload(MAX_BATCH, device)),
        ".cpu()": load(model, "bfloat16", BlockingOffload()),
    }
    print("| streams | offload tok/s | .cpu() tok/s | ratio |\n| --- | --- | --- | --- |")
    for streams in (1, 16, 64, 128):
        prompts, found = make_prompts(streams), {name: list[float]() for name in runners}
        for turn in range(6):
            for name in list(runners)[:: 1 if turn % 2 else -1]:
                start = time.perf_counter()
                made = sum(map(len, generate(runners[name], prompts, 128)))
                found[name].append(made / (time.perf_counter() - start))
        # The first turn warms up.
        offload, blocking = (median(speeds[1:]) for speeds in found.values())
        print(f"| {streams} | {offload:,.0f} | {blocking:,.0f} | {offload / blocking:.3f} |")


def main() -> None:
    """Correctness first."""
    if not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    torch.backends.cuda.matmul.allow_tf32 = False
    with model_file() as model:
        correctness(model)
        speed(model)


if __name__ == "__main__":
    main()
