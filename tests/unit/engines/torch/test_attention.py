"""Both paged attentions against the plain twin, on shuffled pages and mixed rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from millstream.engines.torch.attention import TorchPagedAttention
from millstream.engines.torch.batch import Batch, Row
from millstream.engines.torch.decoder import PagedAttention
from millstream.engines.torch.model_config import ModelConfig
from millstream.engines.torch.native import NativePagedAttention
from millstream.engines.torch.plan import Plan
from tests.reference.attention import PlainAttention

_PAGES, _SLOTS = 40, 4
_CONFIG = ModelConfig(
    architecture="llama",
    num_layers=2,
    hidden_size=64,
    intermediate_size=64,
    num_heads=6,
    num_kv_heads=2,
    head_dim=64,
    vocab_size=64,
    context_length=512,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    tied_head=True,
    llama_shaped=True,
)
Build = Callable[[ModelConfig, torch.dtype], PagedAttention]


def _native(config: ModelConfig, dtype: torch.dtype) -> PagedAttention:
    return NativePagedAttention(config, num_pages=_PAGES, max_batch=_SLOTS, dtype=dtype, threads=2)


def _torch(config: ModelConfig, dtype: torch.dtype) -> PagedAttention:
    return TorchPagedAttention(
        config,
        num_pages=_PAGES,
        page_size=32,
        max_batch=_SLOTS,
        device=torch.device("cpu"),
        dtype=dtype,
    )


_BOTH = pytest.mark.parametrize("build", [_native, _torch], ids=["native", "torch"])
# Rows of one step each: (slot, start, count). Chunks that end inside, at and after a page border.
_STEPS = [
    [(0, 0, 5), (1, 0, 32)],
    [(0, 5, 1), (1, 32, 1), (2, 0, 70)],
    [(2, 70, 30), (0, 6, 58), (1, 33, 1), (3, 0, 1)],
    [(0, 64, 1), (1, 34, 1), (2, 100, 1), (3, 1, 1)],
]


def _plan(rows: list[tuple[int, int, int]]) -> Plan:
    return Plan.of(Batch([Row(slot, (), start, (1,) * count) for slot, start, count in rows]))


@_BOTH
@pytest.mark.parametrize("heads", [(6, 2), (2, 2), (8, 1), (5, 1)])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)], ids=["f32", "bf16"]
)
def test_answers_equal_the_plain_twin(
    build: Build, heads: tuple[int, int], dtype: torch.dtype, tolerance: float
) -> None:
    config = replace(_CONFIG, num_heads=heads[0], num_kv_heads=heads[1])
    attention, twin = build(config, dtype), PlainAttention(heads[1])
    pages = random.Random(3).sample(range(_PAGES), 16)
    for slot in range(_SLOTS):
        attention.extend_pages(slot, pages[4 * slot : 4 * slot + 4])
    generator = torch.Generator().manual_seed(1)
    for rows in _STEPS:
        tokens = sum(count for _, _, count in rows)
        positions = attention.begin(_plan(rows))
        assert len(positions) == tokens
        for layer in range(2):
            shapes = [(tokens, heads[0], 64), (tokens, heads[1], 64), (tokens, heads[1], 64)]
            parts = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
            found = attention.attend(layer, *parts)
            expected = twin.attend(layer, rows, *(part.float().numpy() for part in parts))
            assert found.dtype == dtype
            assert np.abs(found.float().numpy() - expected).max() < tolerance


@_BOTH
def test_a_cleared_slot_does_not_see_the_sequence_before(build: Build) -> None:
    attention, twin = build(_CONFIG, torch.float32), PlainAttention(2)
    generator = torch.Generator().manual_seed(2)

    def step(rows: list[tuple[int, int, int]]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        attention.begin(_plan(rows))
        tokens = sum(count for _, _, count in rows)
        shapes = [(tokens, 6, 64), (tokens, 2, 64), (tokens, 2, 64)]
        parts = [torch.randn(shape, generator=generator) for shape in shapes]
        return attention.attend(0, *parts), parts

    attention.extend_pages(0, [7, 3])
    step([(0, 0, 40)])
    attention.clear_pages(0)
    attention.extend_pages(0, [3])
    found, parts = step([(0, 0, 9)])
    expected = twin.attend(0, [(0, 0, 9)], *(part.numpy() for part in parts))
    assert np.abs(found.numpy() - expected).max() < 2e-6


def test_extreme_scores_stay_finite() -> None:
    attention = _native(_CONFIG, torch.float32)
    attention.extend_pages(0, [0, 1])
    attention.begin(_plan([(0, 0, 40)]))
    query, key = torch.full((40, 6, 64), 30.0), torch.full((40, 2, 64), 30.0)
    key[20:] *= -1
    value = torch.arange(40.0)[:, None, None].expand(40, 2, 64)
    found = attention.attend(0, query, key, value)
    assert torch.isfinite(found).all()
    assert torch.allclose(found[39], torch.full((6, 64), 9.5))


def test_steps_that_do_not_fit_the_cache_are_refused() -> None:
    attention = _native(_CONFIG, torch.float32)
    with pytest.raises(ValueError, match="page 40 is not below 40"):
        attention.extend_pages(0, [1, _PAGES])
    with pytest.raises(ValueError, match="slot 4 is not below 4"):
        attention.extend_pages(_SLOTS, [1])
    attention.extend_pages(0, [1])
    with pytest.raises(ValueError, match="slot 0 has no page for position 32"):
        attention.begin(_plan([(0, 30, 3)]))
    attention.begin(_plan([(0, 30, 2)]))
    right = torch.zeros(2, 2, 64)
    with pytest.raises(ValueError, match="query has 384 values, not 768"):
        attention.attend(0, torch.zeros(1, 6, 64), right, right)
    with pytest.raises(ValueError, match="layer"):
        attention.attend(2, torch.zeros(2, 6, 64), right, right)


@pytest.mark.parametrize("changes", [{"head_dim": 48}, {"num_heads": 5}])
def test_shapes_that_the_kernels_do_not_know_are_refused(changes: dict[str, int]) -> None:
    config = ModelConfig(**({name: getattr(_CONFIG, name) for name in _FIELDS} | changes))
    with pytest.raises(ValueError, match="not supported"):
        _native(config, torch.float32)


_FIELDS = ModelConfig.__dataclass_fields__
