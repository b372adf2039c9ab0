"""The runner over a small random model: every decoder, any mixture of rows, the same result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from millstream.engines.torch.batch import Batch, Row
from millstream.engines.torch.decoder import Decoder
from millstream.engines.torch.hf import HfDecoder, load_transformers
from millstream.engines.torch.llama import TorchLlama
from millstream.engines.torch.load import load_decoder
from millstream.engines.torch.models import ModelFile
from millstream.engines.torch.native import NativeLlama, NativePagedAttention
from millstream.engines.torch.plan import Plan
from millstream.engines.torch.runner import ModelRunner
from millstream.engines.torch.weights import open_checkpoint
from millstream.errors import ConfigError
from millstream.types import SamplingParams
from tests.engine_models import write_tiny_llama

_GREEDY = SamplingParams(max_tokens=64, temperature=0)
_PROMPTS = [[5, 9, 200, 31] * 12, [7], [1, 2, 3], list(range(100, 133))]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"))


def _load(model: ModelFile, *, page_size: int = 32, dtype: str = "float32") -> Decoder:
    return load_decoder(
        model, num_pages=32, page_size=page_size, max_batch=4, device="cpu", dtype=dtype, threads=2
    )


def _hf(model: ModelFile) -> HfDecoder:
    config = open_checkpoint(model).config
    attention = NativePagedAttention(
        config, num_pages=32, max_batch=4, dtype=torch.float32, threads=2
    )
    cpu = torch.device("cpu")
    return HfDecoder(load_transformers(model, torch.float32, cpu), config, attention)


def _runner(decoder: Decoder, page_size: int = 32) -> ModelRunner:
    return ModelRunner(decoder, model_name="tiny", num_pages=32, page_size=page_size, max_batch=4)


class _Sequence:
    """Builds the rows of one sequence; its pages grow as it does."""

    def __init__(
        self, runner: ModelRunner, slot: int, prompt: list[int], params: SamplingParams = _GREEDY
    ) -> None:
        runner.open_slot(slot, params, seed=slot + 1, prompt=prompt)
        self.slot, self.prompt, self.cached = slot, prompt, 0
        self.tokens: list[int] = []
        self._pages: list[int] = []
        self._size = runner.page_size

    def row(self, chunk: int = 64) -> Row:
        tokens = self.prompt[self.cached : self.cached + chunk]
        start = self.cached
        self.cached += len(tokens) or 1
        while len(self._pages) * self._size < self.cached:
            self._pages.append(8 * self.slot + len(self._pages))
        return Row(self.slot, self._pages, start, tokens, self.cached >= len(self.prompt))


def _run(runner: ModelRunner, rows: list[tuple[_Sequence, int]]) -> None:
    handle = runner.step(Batch([sequence.row(chunk) for sequence, chunk in rows]))
    by_slot = {sequence.slot: sequence for sequence, _ in rows}
    for slot, token in zip(handle.slots, handle.ids(), strict=True):
        by_slot[slot].tokens.append(token)


def _alone(runner: ModelRunner, prompt: list[int], params: SamplingParams = _GREEDY) -> list[int]:
    sequence = _Sequence(runner, 0, prompt, params)
    while len(sequence.tokens) < 12:
        _run(runner, [(sequence, 64)])
    return sequence.tokens


@pytest.fixture(scope="module")
def native(model: ModelFile) -> Iterator[ModelRunner]:
    yield _runner(_load(model))  # noqa: PT022 - a return would look like a value to share


def test_the_cpu_runs_llama_in_rust_and_other_page_sizes_in_torch(model: ModelFile) -> None:
    assert isinstance(_load(model), NativeLlama)
    assert isinstance(_load(model, page_size=16), TorchLlama)


@pytest.mark.parametrize("prompt", _PROMPTS, ids=len)
def test_every_decoder_generates_what_transformers_does(
    model: ModelFile, native: ModelRunner, prompt: list[int]
) -> None:
    from transformers import AutoModelForCausalLM

    peer = AutoModelForCausalLM.from_pretrained(str(model.path), dtype=torch.float32)
    ids = torch.tensor([prompt])
    whole = peer.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=0
    )
    expected = whole[0, len(prompt) :].tolist()
    assert _alone(native, prompt) == expected
    assert _alone(_runner(_load(model, page_size=16), 16), prompt) == expected
    assert _alone(_runner(_hf(model)), prompt) == expected


@pytest.mark.parametrize("decoder", ["native", "torch", "hf"])
def test_arrivals_and_chunks_change_nothing(
    model: ModelFile, native: ModelRunner, decoder: str
) -> None:
    expected = [_alone(native, prompt) for prompt in _PROMPTS]
    size = 16 if decoder == "torch" else 32
    runner = _runner(_hf(model) if decoder == "hf" else _load(model, page_size=size), size)
    sequences = [_Sequence(runner, slot, prompt) for slot, prompt in enumerate(_PROMPTS)]
    for step in range(40):
        arrived = [sequence for slot, sequence in enumerate(sequences) if step >= 2 * slot]
        live = [(sequence, 7) for sequence in arrived if len(sequence.tokens) < 12]
        if live:
            # The order of rows is free as well.
            _run(runner, live[:: -1 if step % 2 else 1])
    assert [sequence.tokens for sequence in sequences] == expected


def test_a_row_is_bit_equal_in_any_batch(model: ModelFile) -> None:
    def logits(prompts: list[list[int]]) -> torch.Tensor:
        decoder = _load(model, dtype="bfloat16")
        for slot in range(len(prompts)):
            decoder.extend_pages(slot, [2 * slot, 2 * slot + 1])
        plan = Plan.of(Batch([Row(slot, (), 0, ids) for slot, ids in enumerate(prompts)]))
        return decoder.logits(torch.tensor(plan.host_ids), plan)

    alone = logits([_PROMPTS[0]])
    assert torch.equal(logits([_PROMPTS[0], [4], _PROMPTS[3]])[0], alone[0])


def test_bfloat16_stays_near_float32(model: ModelFile) -> None:
    plan = Plan.of(Batch([Row(0, (), 0, _PROMPTS[0])]))
    found = []
    for dtype in ("float32", "bfloat16"):
        decoder = _load(model, dtype=dtype)
        decoder.extend_pages(0, [0, 1])
        found.append(decoder.logits(torch.tensor(plan.host_ids), plan))
    spread = found[0].std()
    assert 0 < (found[0] - found[1]).abs().max() < 0.1 * spread


def test_the_next_input_is_the_slots_own_last_token(native: ModelRunner) -> None:
    first, second = _Sequence(native, 0, _PROMPTS[2]), _Sequence(native, 1, _PROMPTS[3])
    expected = _alone(native, _PROMPTS[2]), _alone(native, _PROMPTS[3])
    first, second = _Sequence(native, 0, _PROMPTS[2]), _Sequence(native, 1, _PROMPTS[3])
    # All steps are started before any id is read, as an overlapped loop does.
    handles = [native.step(Batch([second.row(), first.row()])) for _ in range(4)]
    read = [handle.ids() for handle in handles]
    assert [ids[1] for ids in read] == expected[0][:4]
    assert [ids[0] for ids in read] == expected[1][:4]


def test_chunks_before_the_last_sample_nothing(native: ModelRunner) -> None:
    sequence = _Sequence(native, 0, _PROMPTS[3])
    handle = native.step(Batch([sequence.row(10)]))
    assert (handle.slots, handle.ids()) == ([], [])


def test_a_seeded_course_survives_preemption(native: ModelRunner) -> None:
    params = SamplingParams(
        max_tokens=64, temperature=1.3, top_p=0.9, presence_penalty=0.5, repetition_penalty=1.1
    )
    expected = _alone(native, _PROMPTS[2], params)
    first = _Sequence(native, 0, _PROMPTS[2], params)
    for _ in range(5):
        _run(native, [(first, 64)])
    native.close_slot(0)
    again = _Sequence(native, 3, _PROMPTS[2] + first.tokens, params)
    native.open_slot(3, params, seed=1, prompt=_PROMPTS[2], generated=first.tokens)
    while len(again.tokens) < 7:
        _run(native, [(again, 64)])
    assert first.tokens + again.tokens == expected


def test_warming_up_leaves_the_slot_free(native: ModelRunner) -> None:
    expected = _alone(native, _PROMPTS[1])
    native.warm_up()
    assert _alone(native, _PROMPTS[1]) == expected


def test_a_step_that_does_not_fit_is_refused_and_changes_nothing(native: ModelRunner) -> None:
    expected = _alone(native, _PROMPTS[2])
    sequence = _Sequence(native, 0, _PROMPTS[2])
    _run(native, [(sequence, 64)])
    with pytest.raises(ValueError, match="no page for position 32"):
        native.step(Batch([Row(0, [0], 32)]))
    with pytest.raises(ValueError, match="token 320 is not below 320"):
        native.step(Batch([Row(0, [0], 3, [320])]))
    while len(sequence.tokens) < 12:
        _run(native, [(sequence, 64)])
    assert sequence.tokens == expected


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"dtype": "int3"}, "int3"),
        ({"dtype": "float16"}, "needs CUDA"),
        ({"device": "tpu"}, "tpu"),
        *([] if torch.cuda.is_available() else [({"device": "cuda"}, "not available")]),
    ],
)
def test_what_cannot_be_used_here_is_named(
    model: ModelFile, wanted: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ModelRunner.load(
            model,
            num_pages=4,
            device=wanted.get("device", "cpu"),
            dtype=wanted.get("dtype", "float32"),
        )


def test_another_architecture_runs_in_its_transformers_class(tmp_path: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(3)
    peer = Qwen2ForCausalLM(
        Qwen2Config(
            hidden_size=64,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            vocab_size=320,
            max_position_embeddings=128,
            initializer_range=0.2,
        )
    )
    peer.save_pretrained(tmp_path)
    decoder = _load(ModelFile("qwen", tmp_path, "safetensors"))
    assert isinstance(decoder, HfDecoder)
    ids = torch.tensor([_PROMPTS[0]])
    whole = peer.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=0
    )
    assert _alone(_runner(decoder), _PROMPTS[0]) == whole[0, 48:].tolist()
