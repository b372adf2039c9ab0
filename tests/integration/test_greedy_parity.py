"""The demo model, greedy in float32: token for token what transformers' ``generate`` writes."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaForCausalLM

from millstream.engines.torch.batch import Batch, Row
from millstream.engines.torch.models import resolve_model
from millstream.engines.torch.runner import ModelRunner
from millstream.engines.torch.tokenizer import Tokenizer
from millstream.types import SamplingParams
from tests.engine_models import packaged_as_transformers

# transformers alone takes a minute for the 32 answers, and several on a machine that is busy.
pytestmark = pytest.mark.timeout(1200)

_GENERATED = 16
_SENTENCES = [
    "What is the capital of France?",
    "Write a haiku about rivers.",
    "Explain in one sentence why the sky is blue.",
    "List 3 prime numbers above 100.",
    "Translate 'good morning' to Spanish.",
    "x  1 = 2 and y = 30; what is x * y?",
    "Wie heißt die Hauptstadt von Österreich? 🙂",
    "def fibonacci(n):",
]


def _prompts(tokenizer: Tokenizer) -> list[list[int]]:
    """32 prompts from 1 to about 300 tokens."""
    prompts = [tokenizer.encode_chat([{"role": "user", "content": text}]) for text in _SENTENCES]
    prompts += [tokenizer.encode(text) for text in _SENTENCES]
    story = tokenizer.encode(" ".join(_SENTENCES) * 4)
    lengths = [1, 2, 31, 32, 33, 63, 64, 65, 95, 96, 97, 128, 160, 200, 257, 300]
    return prompts + [story[length % 7 :][:length] for length in lengths]


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    made = _prompts(Tokenizer.load(resolve_model("smollm2-135m-instruct").path))
    assert len(made) == 32
    assert len({len(prompt) for prompt in made}) > 20
    return made


@pytest.fixture(scope="module")
def expected(prompts: list[list[int]]) -> list[list[int]]:
    model = packaged_as_transformers(torch.float32)
    # One thread: torch's threads wait for each other, which on a busy machine takes minutes.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_generate(model, prompt) for prompt in prompts]
    finally:
        torch.set_num_threads(threads)


def _generate(model: LlamaForCausalLM, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        whole = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            pad_token_id=2,
            max_new_tokens=_GENERATED,
            do_sample=False,
        )
    return [int(token) for token in whole[0, len(prompt) :]]


class _Streams:
    """A plain loop over the runner: arrivals by step, prompts in chunks, everything mixed."""

    def __init__(self, runner: ModelRunner, prompts: list[list[int]]) -> None:
        self.runner, self.prompts = runner, prompts
        self.tokens: dict[int, list[int]] = {}
        self._slots: dict[int, int] = {}
        self._cached: dict[int, int] = {}

    def start(self, index: int) -> None:
        slot = min(set(range(self.runner.max_batch)) - set(self._slots.values()))
        params = SamplingParams(max_tokens=_GENERATED, temperature=0)
        self.runner.open_slot(slot, params, seed=0, prompt=self.prompts[index])
        self._slots[index], self._cached[index], self.tokens[index] = slot, 0, []

    def stop(self, index: int) -> None:
        self.runner.close_slot(self._slots.pop(index))

    @property
    def running(self) -> list[int]:
        return list(self._slots)

    def step(self, chunk: int) -> None:
        rows = [self._row(index, chunk) for index in self._slots]
        handle = self.runner.step(Batch(rows))
        owners = {slot: index for index, slot in self._slots.items()}
        for slot, token in zip(handle.slots, handle.ids(), strict=True):
            self.tokens[owners[slot]].append(token)
        for index in self.running:
            if len(self.tokens[index]) == _GENERATED:
                self.stop(index)

    def _row(self, index: int, chunk: int) -> Row:
        prompt, slot, start = self.prompts[index], self._slots[index], self._cached[index]
        tokens = prompt[start : start + chunk]
        self._cached[index] += len(tokens) or 1
        per_slot = self.runner.num_pages // self.runner.max_batch
        pages = range(slot * per_slot, (slot + 1) * per_slot)
        return Row(slot, pages, start, tokens, self._cached[index] >= len(prompt))


def _load(dtype: str) -> ModelRunner:
    model = resolve_model("smollm2-135m-instruct")
    return ModelRunner.load(model, num_pages=16 * 10, max_batch=16, device="cpu", dtype=dtype)


@pytest.fixture(scope="module")
def runner() -> ModelRunner:
    return _load("float32")


def test_alone(runner: ModelRunner, prompts: list[list[int]], expected: list[list[int]]) -> None:
    for index in range(32):
        streams = _Streams(runner, prompts)
        streams.start(index)
        while streams.running:
            streams.step(512)
        assert streams.tokens[index] == expected[index], f"prompt {index}"


def test_mixed_with_arrivals_chunks_and_aborts(
    runner: ModelRunner, prompts: list[list[int]], expected: list[list[int]]
) -> None:
    streams = _Streams(runner, prompts)
    order = [(7 * number) % 32 for number in range(32)]
    doomed = {order[3], order[10]}
    waiting = [*order, *sorted(doomed)]
    step = 0
    while waiting or streams.running:
        if waiting and step % 2 == 0 and len(streams.running) < runner.max_batch:
            streams.start(waiting.pop(0))
        streams.step(48)
        step += 1
        if step in (15, 25):
            victim = next(iter(doomed & set(streams.running)), None)
            if victim is not None:
                streams.stop(victim)
                doomed.discard(victim)
    assert not doomed
    assert [streams.tokens[index] for index in range(32)] == expected


def test_bfloat16_agrees_for_most_tokens(
    prompts: list[list[int]], expected: list[list[int]]
) -> None:
    runner = _load("bfloat16")
    agreed = 0
    for index in range(32):
        streams = _Streams(runner, prompts)
        streams.start(index)
        while streams.running:
            streams.step(512)
        pairs = zip(streams.tokens[index], expected[index], strict=True)
        differing = [place for place, (ours, theirs) in enumerate(pairs) if ours != theirs]
        agreed += differing[0] if differing else _GENERATED
    share = agreed / (32 * _GENERATED)
    print(f"bfloat16 agrees with float32 for {share:.1%} of the tokens before a first difference")
    # All of them on the machines at hand, because 4 and 8 bits stay as the file has them; with
    # weights rounded to bfloat16 it was 96.9 %.
    assert share > 0.95
