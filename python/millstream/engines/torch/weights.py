"""A model's tensors under transformers' names, from a GGUF file or a directory of safetensors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open

from millstream.engines.torch.codes import CodedMatrix, read_codes
from millstream.engines.torch.dequantize import dequantize
from millstream.engines.torch.gguf import GgufFile, GgufTensor
from millstream.engines.torch.model_config import (
    ModelConfig,
    config_from_gguf,
    config_from_transformers,
)
from millstream.engines.torch.models import ModelFile
from millstream.errors import ConfigError


class Checkpoint(Protocol):
    """Tensors by transformers' names, read when asked for."""

    config: ModelConfig

    def names(self) -> Iterator[str]:
        """All names."""

    def tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """One tensor, in ``dtype``; raises ``ConfigError`` if there is none of this name."""

    def codes(self, name: str) -> CodedMatrix | None:
        """One matrix as the file has it, or None if the file has plain numbers."""


def open_checkpoint(model: ModelFile) -> Checkpoint:
    """Map the model's files; nothing is converted yet. Raises ``ConfigError``."""
    if model.format == "gguf":
        return GgufCheckpoint(GgufFile(model.path))
    return SafetensorsCheckpoint(model.path)


_GGUF_OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
_GGUF_INNER = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}


class GgufCheckpoint:
    """A Llama model in a GGUF file."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self.config = config_from_gguf(file, set(file.tensors))
        self._gguf_names = dict(self._translate())

    def names(self) -> Iterator[str]:
        """All names."""
        return iter(self._gguf_names)

    def tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """One tensor, dequantised to ``dtype``."""
        values = dequantize(self._file, self._place(name), dtype)
        order = self._row_order(name)
        return values if order is None else values[torch.from_numpy(order)]

    def codes(self, name: str) -> CodedMatrix | None:
        """One matrix as the file has it, or None if its format has no codes known here."""
        coded = read_codes(self._file, self._place(name))
        order = self._row_order(name)
        return coded if coded is None or order is None else coded.rows(order)

    def _place(self, name: str) -> GgufTensor:
        place = self._file.tensors.get(self._gguf_names.get(name, ""))
        if place is None:
            raise ConfigError(f"{self._file.path} has no tensor for {name}")
        return place

    def _row_order(self, name: str) -> npt.NDArray[np.int64] | None:
        if name.endswith("q_proj.weight"):
            return _rotary_order(self.config.num_heads, self.config.head_dim)
        if name.endswith("k_proj.weight"):
            return _rotary_order(self.config.num_kv_heads, self.config.head_dim)
        return None

    def _translate(self) -> Iterator[tuple[str, str]]:
        for name, gguf_name in _GGUF_OUTER.items():
            if gguf_name in self._file.tensors:
                yield name, gguf_name
        for layer in range(self.config.num_layers):
            for name, gguf_name in _GGUF_INNER.items():
                yield f"model.layers.{layer}.{name}", f"blk.{layer}.{gguf_name}"


def _rotary_order(heads: int, head_dim: int) -> npt.NDArray[np.int64]:
    """Undoes GGUF's interleaving of the two halves that rotary positions turn."""
    rows = np.arange(heads * head_dim, dtype=np.int64)
    return rows.reshape(heads, head_dim // 2, 2).transpose(0, 2, 1).reshape(-1)


class SafetensorsCheckpoint:
    """A model directory with ``config.json`` and one or more ``.safetensors`` files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            settings = json.loads((path / "config.json").read_text(encoding="utf-8"))
            self._files = [
                safe_open(str(file), framework="pt") for file in sorted(path.glob("*.safetensors"))
            ]
        except (OSError, ValueError, SafetensorError) as error:
            raise ConfigError(f"cannot read the model in {path}: {error}") from error
        self.config = config_from_transformers(settings)
        self._places = {name: file for file in self._files for name in _names(file)}

    def names(self) -> Iterator[str]:
        """All names."""
        return iter(self._places)

    def tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """One tensor, converted to ``dtype`` if the file has another."""
        file = self._places.get(name)
        if file is None:
            raise ConfigError(f"{self.path} has no tensor {name}")
        return _loaded(file, name).to(dtype)

    def codes(self, name: str) -> CodedMatrix | None:
        """None: these files have plain numbers."""
        del name
        return None


def _names(file: Any) -> list[str]:
    return list(file.keys())


def _loaded(file: Any, name: str) -> torch.Tensor:
    tensor: torch.Tensor = file.get_tensor(name)
    return tensor
