"""Weights that stay as the model file has them: codes of 4 or 8 bits with scales and offsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.engines.torch.gguf import GgufFile, GgufTensor

_BLOCK = 32
_Q4_0, _Q4_1, _Q8_0 = 2, 3, 8
_BLOCK_BYTES = {_Q4_0: 18, _Q4_1: 20, _Q8_0: 34}


@dataclass(frozen=True, slots=True)
class CodedMatrix:
    """A matrix whose weights are ``scale * code + offset`` in each row's blocks of 32."""

    bits: int
    codes: npt.NDArray[np.uint8]
    """``[rows, columns]``."""
    scales: npt.NDArray[np.float32]
    """``[rows, columns / 32]``, as ``offsets``."""
    offsets: npt.NDArray[np.float32]

    def rows(self, order: npt.NDArray[np.int64]) -> CodedMatrix:
        """The same rows in another order."""
        return CodedMatrix(self.bits, self.codes[order], self.scales[order], self.offsets[order])


def read_codes(file: GgufFile, tensor: GgufTensor) -> CodedMatrix | None:
    """The codes of a matrix, or None if its format has none that are known here."""
    size = _BLOCK_BYTES.get(tensor.quantization)
    if size is None or len(tensor.shape) != 2:
        return None
    rows, columns = tensor.shape
    blocks = columns // _BLOCK
    raw = np.frombuffer(file.bytes_of(tensor, rows * blocks * size), np.uint8)
    raw = raw.reshape(rows, blocks, size)
    scales = _halves(raw, 0)
    if tensor.quantization == _Q8_0:
        # Signed codes become unsigned ones: flipping the highest bit adds 128.
        codes = raw[:, :, 2:] ^ np.uint8(128)
        return CodedMatrix(8, codes.reshape(rows, columns), scales, scales * np.float32(-128))
    packed = raw[:, :, size - 16 :]
    codes = np.concatenate((packed & 15, packed >> 4), axis=2).reshape(rows, columns)
    zero = _halves(raw, 2) if tensor.quantization == _Q4_1 else scales * np.float32(-8)
    return CodedMatrix(4, codes, scales, zero)


def _halves(raw: npt.NDArray[np.uint8], start: int) -> npt.NDArray[np.float32]:
    halves = np.ascontiguousarray(raw[:, :, start : start + 2]).view(np.float16)
    return halves[:, :, 0].astype(np.float32)


def joined_codes(parts: list[CodedMatrix]) -> CodedMatrix | None:
    """Matrices of the same width below one another, or None if their codes differ in size."""
    if len({part.bits for part in parts}) != 1:
        return None
    return CodedMatrix(
        parts[0].bits,
        np.concatenate([part.codes for part in parts]),
        np.concatenate([part.scales for part in parts]),
        np.concatenate([part.offsets for part in parts]),
    )
