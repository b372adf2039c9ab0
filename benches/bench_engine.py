"""Tokens per second of the engine beside transformers, on the CPU.

``python -m benches.bench_engine [--quick]`` prints the table and keeps it in
``benches/results/engine.md``. All generate greedily from the same prompts a fixed number of tokens
with two threads and bfloat16; the subjects take turns within each round.
"""

from __future__ import annotations

import random
import sys
import time
from statistics import median
from typing import NamedTuple

import pytest
import torch

from benches.engine_peers import (
    MODEL,
    THREADS,
    Generate,
    Prompts,
    continuous_batching,
    ours,
    padded_generate,
    transformers_model,
)
from benches.table import Table
from millstream.engines.torch.models import resolve_model
from millstream.engines.torch.tokenizer import Tokenizer

STREAMS = (1, 4, 16, 32)
PROMPT_TOKENS = (64, 160)
NEW_TOKENS = 48
ROUNDS = 3
OURS = "millstream"
CONTINUOUS = "transformers continuous batching"
PADDED = "transformers padded generate"
PACKAGES = ("torch", "transformers")


class Speed(NamedTuple):
    """Generated tokens per second, prompts included and without; CPU milliseconds per token."""

    whole: float
    decode: float
    cpu_ms: float


def make_prompts(count: int) -> Prompts:
    """Prompts of different lengths from one text, the same in every run."""
    tokenizer = Tokenizer.load(resolve_model(MODEL).path)
    text = tokenizer.encode("The mill stands where the stream is narrow and turns all day. " * 40)
    lengths = random.Random(5)
    return [text[index:][: lengths.randint(*PROMPT_TOKENS)] for index in range(count)]


def subjects() -> dict[str, Generate]:
    """Everything that takes part, loaded."""
    torch.set_num_threads(THREADS)
    tokens_each = PROMPT_TOKENS[1] + NEW_TOKENS
    model = transformers_model()
    return {
        OURS: ours(max(STREAMS), tokens_each),
        CONTINUOUS: continuous_batching(model, max(STREAMS), tokens_each),
        PADDED: padded_generate(model),
    }


def measure(generate: Generate, prompts: Prompts, count: int) -> Speed:
    """One token for all prompts, then ``count``: the difference is decoding alone."""
    first, _ = _timed(generate, prompts, 1)
    seconds, cpu = _timed(generate, prompts, count)
    made = count * len(prompts)
    decoded = (made - len(prompts)) / max(seconds - first, 1e-9)
    return Speed(made / seconds, decoded, 1_000 * cpu / made)


def _timed(generate: Generate, prompts: Prompts, count: int) -> tuple[float, float]:
    cpu, start = time.process_time(), time.perf_counter()
    rows = generate(prompts, count)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    if [len(row) for row in rows] != [count] * len(prompts):
        raise RuntimeError(f"{sum(map(len, rows))} tokens instead of {count * len(prompts)}")
    return seconds, cpu


def compare(rounds: int, new_tokens: int) -> Table:
    """The table: a row for each subject and number of streams."""
    columns = ("streams", "engine", "tokens/s", "decode tokens/s", "CPU ms/token")
    ratios = ("ours ×", "ours ×, decode", "ours ×, CPU")
    table = Table("engine", "Engine", columns + ratios)
    parts = subjects()
    prompts = make_prompts(max(STREAMS))
    for generate in parts.values():
        generate(prompts[:1], 2)
    for streams in STREAMS:
        found: dict[str, list[Speed]] = {name: [] for name in parts}
        for turn in range(rounds):
            order = list(parts) if turn % 2 == 0 else list(reversed(parts))
            for name in order:
                found[name].append(measure(parts[name], prompts[:streams], new_tokens))
        _add_rows(table, streams, found)
    table.note(
        f"greedy, {THREADS} threads, {new_tokens} new tokens for prompts of {PROMPT_TOKENS[0]} to"
        f" {PROMPT_TOKENS[1]} tokens; medians of {rounds} rounds in which the subjects take turns;"
        " decode: without the time that the first token takes"
    )
    table.note(
        "the same GGUF file for all: millstream keeps its 4 and 8 bits and a bfloat16 cache,"
        " transformers computes with the file's numbers in bfloat16"
    )
    table.note(
        "continuous batching: SDPA, pages of 32 tokens, room for all requests, 1,024 tokens a step;"
        " padded generate: SDPA, one left-padded batch, which must wait for its slowest member"
    )
    return table


def _add_rows(table: Table, streams: int, found: dict[str, list[Speed]]) -> None:
    middle = {
        name: Speed(*(median(column) for column in zip(*speeds, strict=True)))
        for name, speeds in found.items()
    }
    ours_speed = middle[OURS]
    for name, speed in middle.items():
        table.row(
            str(streams),
            name,
            f"{speed.whole:,.0f}",
            f"{speed.decode:,.0f}",
            f"{speed.cpu_ms:.2f}",
            f"{ours_speed.whole / speed.whole:.1f}",
            f"{ours_speed.decode / speed.decode:.1f}",
            f"{speed.cpu_ms / ours_speed.cpu_ms:.1f}",
        )


@pytest.fixture(scope="module")
def parts() -> dict[str, Generate]:
    return subjects()


@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("name", [OURS, CONTINUOUS, PADDED])
def test_generation(
    benchmark: pytest.FixtureRequest, parts: dict[str, Generate], name: str, streams: int
) -> None:
    prompts = make_prompts(streams)
    run = getattr(benchmark, "pedantic")  # noqa: B009 - pytest-benchmark has no types
    rows = run(parts[name], args=(prompts, 16), rounds=2, warmup_rounds=1)
    assert [len(row) for row in rows] == [16] * streams


def main() -> None:
    """Measure, print and keep."""
    if "--quick" in sys.argv:
        sys.stdout.write(compare(1, 16).render(PACKAGES))
    else:
        compare(ROUNDS, NEW_TOKENS).write(PACKAGES)


if __name__ == "__main__":
    main()
