"""Turns GGUF's quantised blocks into tensors, vectorised.

In float32 the result is bit-equal to that of the ``gguf`` package: the same products and sums in
the same order, without fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch

from millstream.engines.torch.gguf import GgufFile, GgufTensor
from millstream.errors import ConfigError

_BLOCK = 32
# 32,768 values at a time stay in the L2 cache and below the size at which torch would share the
# work among threads, whose waiting for each other costs more than it gains on a busy machine.
_CHUNK_BLOCKS = 1024


@dataclass(frozen=True, slots=True)
class _Format:
    values: int
    """Values in one block."""
    bytes: int
    """Bytes of one block."""
    decode: Callable[[torch.Tensor], torch.Tensor]
    """From ``[blocks, bytes]`` uint8 to ``[blocks, values]``; plain formats: all bytes flat."""


def dequantize(file: GgufFile, tensor: GgufTensor, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of the file in ``dtype``; raises ``ConfigError`` for formats not known here."""
    kind = _FORMATS.get(tensor.quantization)
    if kind is None:
        raise ConfigError(
            f"{file.path}: tensor {tensor.name} has format {tensor.quantization}; "
            "known are F32, F16, BF16, Q4_0, Q4_1 and Q8_0"
        )
    blocks = prod(tensor.shape) // kind.values
    raw = torch.frombuffer(file.bytes_of(tensor, blocks * kind.bytes), dtype=torch.uint8)
    if kind.values == 1:
        return kind.decode(raw).reshape(tensor.shape).to(dtype)
    values = torch.empty((blocks, kind.values), dtype=dtype)
    encoded = raw.view(blocks, kind.bytes)
    for first in range(0, blocks, _CHUNK_BLOCKS):
        chunk = slice(first, first + _CHUNK_BLOCKS)
        values[chunk] = kind.decode(encoded[chunk])
    return values.reshape(tensor.shape)


def _half(blocks: torch.Tensor, start: int) -> torch.Tensor:
    return blocks[:, start : start + 2].contiguous().view(torch.float16).float()


def _nibbles(packed: torch.Tensor) -> torch.Tensor:
    # Low halves are the first 16 values of a block, high halves the last 16.
    return torch.cat((packed & 15, packed >> 4), dim=1).float()


def _q4_0(blocks: torch.Tensor) -> torch.Tensor:
    return _nibbles(blocks[:, 2:]).sub_(8).mul_(_half(blocks, 0))


def _q4_1(blocks: torch.Tensor) -> torch.Tensor:
    return _nibbles(blocks[:, 4:]).mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _q8_0(blocks: torch.Tensor) -> torch.Tensor:
    return blocks[:, 2:].contiguous().view(torch.int8).float().mul_(_half(blocks, 0))


def _plain(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    # A copy, so that the tensor does not keep pages of the mapped file.
    return lambda blocks: blocks.clone().view(dtype)


_FORMATS = {
    0: _Format(1, 4, _plain(torch.float32)),
    1: _Format(1, 2, _plain(torch.float16)),
    2: _Format(_BLOCK, 18, _q4_0),
    3: _Format(_BLOCK, 20, _q4_1),
    8: _Format(_BLOCK, 34, _q8_0),
    30: _Format(1, 2, _plain(torch.bfloat16)),
}
