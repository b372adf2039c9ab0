"""Weights as the file means them, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, quants

from millstream.engines.torch.codes import joined_codes, read_codes
from millstream.engines.torch.dequantize import dequantize
from millstream.engines.torch.gguf import GgufFile, GgufTensor
from millstream.engines.torch.models import resolve_model
from millstream.engines.torch.weights import Checkpoint, open_checkpoint
from millstream.errors import ConfigError
from tests.engine_models import TINY, write_tiny_llama

_FORMATS = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0"]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return open_checkpoint(resolve_model("smollm2-135m-instruct"))


def _written(
    folder: Path, values: npt.NDArray[np.float32], kind: GGMLQuantizationType
) -> tuple[GgufFile, GgufTensor]:
    """A tensor that the reference package quantised and wrote."""
    writer = GGUFWriter(str(folder / "t.gguf"), "llama")
    writer.add_tensor("t", quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GgufFile(folder / "t.gguf")
    return file, file.tensors["t"]


@pytest.mark.parametrize("name", _FORMATS)
def test_every_format_equals_the_reference_dequantisation(tmp_path: Path, name: str) -> None:
    kind = GGMLQuantizationType[name]
    rng = np.random.default_rng(5)
    # More than one chunk of 1,024 blocks, and not a whole number of them.
    values = (rng.standard_normal((1_111, 64)) * 3).astype(np.float32)
    found = dequantize(*_written(tmp_path, values, kind), torch.float32).numpy()
    expected = quants.dequantize(quants.quantize(values, kind), kind).reshape(found.shape)
    assert np.array_equal(found.view(np.int32), expected.view(np.int32))
    assert np.abs(found - values).mean() < 0.5


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    kind = GGMLQuantizationType.Q5_0
    written = _written(tmp_path, np.ones((4, 32), np.float32), kind)
    with pytest.raises(ConfigError, match="has format 6"):
        dequantize(*written, torch.float32)


@pytest.fixture(scope="module")
def reader() -> GGUFReader:
    """The reference's own, which takes seconds to open the file."""
    return GGUFReader(str(resolve_model("smollm2-135m-instruct").path))


@pytest.mark.parametrize(
    ("name", "gguf_name"),
    [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("model.layers.7.mlp.down_proj.weight", "blk.7.ffn_down.weight"),
        ("model.layers.29.input_layernorm.weight", "blk.29.attn_norm.weight"),
    ],
)
def test_packaged_weights_are_bit_equal_to_the_reference(
    checkpoint: Checkpoint, reader: GGUFReader, name: str, gguf_name: str
) -> None:
    stored = next(tensor for tensor in reader.tensors if tensor.name == gguf_name)
    expected = quants.dequantize(stored.data, stored.tensor_type)
    found = checkpoint.tensor(name, torch.float32).numpy()
    assert np.array_equal(found.view(np.int32), expected.reshape(found.shape).view(np.int32))


def test_query_rows_are_put_back_into_rotary_order(checkpoint: Checkpoint) -> None:
    file = GgufFile(resolve_model("smollm2-135m-instruct").path)
    stored = dequantize(file, file.tensors["blk.3.attn_k.weight"], torch.float32)
    found = checkpoint.tensor("model.layers.3.self_attn.k_proj.weight", torch.float32)
    for head in range(3):
        for pair in range(32):
            row = head * 64 + pair
            assert torch.equal(found[row], stored[head * 64 + 2 * pair])
            assert torch.equal(found[row + 32], stored[head * 64 + 2 * pair + 1])


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q8_0"])
def test_codes_stand_for_the_dequantised_numbers(tmp_path: Path, name: str) -> None:
    kind = GGMLQuantizationType[name]
    values = np.random.default_rng(6).standard_normal((96, 64)).astype(np.float32)
    coded = read_codes(*_written(tmp_path, values, kind))
    assert coded is not None
    assert coded.bits == (8 if name == "Q8_0" else 4)
    assert coded.codes.max() < 1 << coded.bits
    numbers = coded.codes.reshape(96, 2, 32) * coded.scales[:, :, None] + coded.offsets[:, :, None]
    expected = quants.dequantize(quants.quantize(values, kind), kind).reshape(96, 64)
    # In float32 Q4_0 and Q8_0 subtract after the product here and before it there.
    assert np.allclose(numbers.reshape(96, 64), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["F32", "BF16"])
def test_plain_numbers_have_no_codes(tmp_path: Path, name: str) -> None:
    values = np.ones((32, 32), np.float32)
    assert read_codes(*_written(tmp_path, values, GGMLQuantizationType[name])) is None


def test_codes_of_query_rows_are_in_rotary_order_too(checkpoint: Checkpoint) -> None:
    name = "model.layers.3.self_attn.q_proj.weight"
    coded = checkpoint.codes(name)
    assert coded is not None
    blocks = coded.codes.reshape(576, 18, 32)
    numbers = blocks * coded.scales[:, :, None] + coded.offsets[:, :, None]
    expected = checkpoint.tensor(name, torch.float32).numpy()
    assert np.array_equal(numbers.reshape(576, 576), expected)


def test_codes_of_different_size_are_not_joined(checkpoint: Checkpoint) -> None:
    four = checkpoint.codes("model.layers.0.self_attn.k_proj.weight")
    eight = checkpoint.codes("model.embed_tokens.weight")
    assert four is not None
    assert eight is not None
    assert joined_codes([four, eight]) is None
    joined = joined_codes([four, four])
    assert joined is not None
    assert joined.codes.shape == (384, 576)


def test_bfloat16_is_the_rounded_float32(checkpoint: Checkpoint) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    rounded = checkpoint.tensor(name, torch.float32).to(torch.bfloat16)
    assert torch.equal(checkpoint.tensor(name, torch.bfloat16), rounded)


def test_the_shape_is_read_from_the_file(checkpoint: Checkpoint) -> None:
    config = checkpoint.config
    assert (config.num_layers, config.num_heads, config.num_kv_heads) == (30, 9, 3)
    assert (config.head_dim, config.hidden_size, config.vocab_size) == (64, 576, 49152)
    assert (config.context_length, config.rope_theta) == (8192, 100000.0)
    assert config.tied_head
    assert len(list(checkpoint.names())) == 272


def test_a_directory_gives_its_tensors_in_the_wanted_type(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_tiny_llama(tmp_path))
    assert checkpoint.config.num_layers == TINY["num_hidden_layers"]
    assert checkpoint.tensor("model.norm.weight", torch.bfloat16).dtype == torch.bfloat16
    assert "lm_head.weight" in set(checkpoint.names())
    with pytest.raises(ConfigError, match=r"no tensor nothing\.weight"):
        checkpoint.tensor("nothing.weight", torch.float32)


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_bias": True},
        {"mlp_bias": True},
        {"model_type": "qwen2"},
        {"hidden_act": "gelu"},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0}},
    ],
)
def test_models_that_only_resemble_llama_are_told_apart(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    assert open_checkpoint(write_tiny_llama(tmp_path / "plain")).config.llama_shaped
    model = write_tiny_llama(tmp_path / "other", **changes)
    assert not open_checkpoint(model).config.llama_shaped


@pytest.mark.parametrize("content", ["{", '{"model_type": "llama"}'])
def test_a_config_that_says_nothing_is_refused(tmp_path: Path, content: str) -> None:
    model = write_tiny_llama(tmp_path)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ConfigError):
        open_checkpoint(model)
