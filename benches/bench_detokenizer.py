"""Token ids to text, a token at a time: the detokenizer beside ``DecodeStream`` and the twin.

``python -m benches.bench_detokenizer`` prints the table and keeps it in
``benches/results/detokenizer.md``; ``pytest benches/bench_detokenizer.py --benchmark-enable`` runs
the same cases under pytest-benchmark. The vocabulary is SmolLM2's.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tokenizers.decoders import DecodeStream

from benches.table import Table
from millstream._core import Detokenizer, Emitter, RingConsumer, RingProducer, Vocabulary
from tests.reference.detokenizer import Detokenizer as Twin
from tests.unit.core.vocabulary import RealVocabulary, load

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

LENGTH = 256
SLOTS = 32
ROUNDS = 15
STOP = ["<|im_end|>", "\n\nUser:", "###", "```"]


class Bench:
    """The cases over one set of token sequences, most of it words, one in fifty anything."""

    def __init__(self, real: RealVocabulary) -> None:
        source = random.Random(3)
        words = [i for i, token in enumerate(real.tokens) if token[:1] == b" " and token.isascii()]
        self.sequences = [
            [source.choice(words if source.random() < 0.98 else range(len(real.tokens))) for _ in s]
            for s in [range(LENGTH)] * SLOTS
        ]
        self.real = real
        self.special = frozenset(real.special)
        self.vocabulary = Vocabulary(real.tokens, real.special)
        self.consumer = RingConsumer.create()
        self.producer = RingProducer(
            os.dup(self.consumer.memory_fd()), os.dup(self.consumer.notify_fd())
        )
        self.cases: dict[str, Callable[[], int]] = {
            "Emitter.step, 32 slots, into the ring": lambda: self.emitter([]),
            "Emitter.step, 32 slots, 4 stop strings": lambda: self.emitter(STOP),
            "Detokenizer.push": lambda: self.detokenizer([]),
            "Detokenizer.push, 4 stop strings": lambda: self.detokenizer(STOP),
            "tokenizers DecodeStream.step": self.decode_stream,
            "twin": lambda: self.twin([]),
            "twin, 4 stop strings": lambda: self.twin(STOP),
        }

    def emitter(self, stop: list[str]) -> int:
        """Every sequence in a slot, all slots in one call a step."""
        emitter = Emitter(self.vocabulary)
        slots = [emitter.open(self.producer, stream, 0, stop) for stream in range(SLOTS)]
        for ids in zip(*self.sequences, strict=True):
            emitter.step(slots, list(ids), 0)
            self.producer.flush()
        for slot in slots:
            emitter.finish(slot, "length", 0)
        self.producer.flush()
        return SLOTS * LENGTH

    def detokenizer(self, stop: list[str]) -> int:
        size = 0
        for ids in self.sequences:
            detokenizer = Detokenizer(self.vocabulary, stop)
            for token in ids:
                size += len(detokenizer.push(token))
            detokenizer.finish()
        return size

    def decode_stream(self) -> int:
        size = 0
        for ids in self.sequences:
            stream = DecodeStream(skip_special_tokens=True)
            for token in ids:
                size += len(stream.step(self.real.oracle, token) or "")
        return size

    def twin(self, stop: list[str]) -> int:
        size = 0
        for ids in self.sequences:
            twin = Twin(self.real.tokens, self.special, stop)
            for token in ids:
                size += len(twin.push(token))
            twin.finish()
        return size

    def time(self, name: str) -> float:
        """CPU nanoseconds per token of one run; the ring is emptied outside of it."""
        before = time.process_time_ns()
        self.cases[name]()
        spent = time.process_time_ns() - before
        self.consumer.drain()
        return spent / (SLOTS * LENGTH)


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(load())


CASES = [
    "Emitter.step, 32 slots, into the ring",
    "Detokenizer.push",
    "Detokenizer.push, 4 stop strings",
    "tokenizers DecodeStream.step",
    "twin",
    "twin, 4 stop strings",
]


@pytest.mark.parametrize("name", CASES)
def test_detokenize(benchmark: BenchmarkFixture, bench: Bench, name: str) -> None:
    result = benchmark.pedantic(  # type: ignore[no-untyped-call]
        bench.cases[name], rounds=5, teardown=lambda *_args: bench.consumer.drain()
    )
    assert result > LENGTH


def main() -> None:
    """Print the table and keep it."""
    bench = Bench(load())
    runs: dict[str, list[float]] = {name: [] for name in bench.cases}
    for _ in range(ROUNDS):
        for name, results in runs.items():
            results.append(bench.time(name))
    peer = statistics.median(runs["tokenizers DecodeStream.step"])
    table = Table(
        "detokenizer",
        f"Token ids to text, SmolLM2's vocabulary, {SLOTS} sequences of {LENGTH} tokens",
        ("case", "CPU ns/token", "worst run", "ratio to DecodeStream"),
    )
    for name, results in runs.items():
        median = statistics.median(results)
        table.row(name, f"{median:,.0f}", f"{max(results):,.0f}", f"{median / peer:.3f}")
    table.note(f"Medians of {ROUNDS} runs by turns. DecodeStream knows no stop strings.")
    table.note("Emitter.step includes writing the records into the ring and one signal a step.")
    table.write(["tokenizers"])


if __name__ == "__main__":
    main()
