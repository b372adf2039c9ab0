"""A Llama-shaped checkpoint in the form that the Rust decoder packs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from millstream.engines.torch.codes import CodedMatrix, joined_codes
from millstream.engines.torch.llama import inverse_frequencies
from millstream.engines.torch.weights import Checkpoint

Floats = npt.NDArray[np.float32]
Matrix = CodedMatrix | Floats
_BLOCK = 32


@dataclass(frozen=True, slots=True)
class LayerArrays:
    """Weights of one layer; ``gate_up`` has 32 rows of gate and 32 of up in turns."""

    input_norm: Floats
    qkv: Matrix
    output: Matrix
    mlp_norm: Floats
    gate_up: Matrix
    down: Matrix


@dataclass(frozen=True, slots=True)
class FrameArrays:
    """Weights around the layers, and constants."""

    embedding: Matrix
    norm: Floats
    head: Matrix | None
    frequencies: Floats
    hidden: int
    positions: int
    norm_eps: float


class NativeWeights:
    """Reads a checkpoint layer by layer; ``coded`` leaves 4 and 8 bits as they are."""

    def __init__(self, checkpoint: Checkpoint, *, coded: bool) -> None:
        self._checkpoint = checkpoint
        self._coded = coded

    def frame(self) -> FrameArrays:
        """Everything but the layers."""
        config = self._checkpoint.config
        return FrameArrays(
            embedding=self._matrix("model.embed_tokens"),
            norm=self._floats("model.norm"),
            head=None if config.tied_head else self._matrix("lm_head"),
            frequencies=inverse_frequencies(config).numpy(),
            hidden=config.hidden_size,
            positions=config.context_length,
            norm_eps=config.rms_norm_eps,
        )

    def layers(self) -> Iterator[LayerArrays]:
        """The layers in order, each read when it is asked for."""
        for index in range(self._checkpoint.config.num_layers):
            block = f"model.layers.{index}"
            attention, mlp = f"{block}.self_attn", f"{block}.mlp"
            yield LayerArrays(
                input_norm=self._floats(f"{block}.input_layernorm"),
                qkv=self._matrix(*(f"{attention}.{part}_proj" for part in "qkv")),
                output=self._matrix(f"{attention}.o_proj"),
                mlp_norm=self._floats(f"{block}.post_attention_layernorm"),
                gate_up=_in_turns(self._matrix(f"{mlp}.gate_proj", f"{mlp}.up_proj")),
                down=self._matrix(f"{mlp}.down_proj"),
            )

    def _matrix(self, *names: str) -> Matrix:
        """Matrices below one another, in codes if all of them are."""
        if self._coded:
            found = [self._checkpoint.codes(f"{name}.weight") for name in names]
            coded = [matrix for matrix in found if matrix is not None]
            if len(coded) == len(names) and (joined := joined_codes(coded)) is not None:
                return joined
        return np.concatenate([self._floats(name) for name in names])

    def _floats(self, name: str) -> Floats:
        values = self._checkpoint.tensor(f"{name}.weight", torch.float32)
        array: Floats = values.contiguous().numpy()
        return array


def _in_turns(matrix: Matrix) -> Matrix:
    """Two halves of rows, 32 rows of each in turns: so one thread has both in its hands."""
    rows = len(matrix.codes if isinstance(matrix, CodedMatrix) else matrix)
    numbers = np.arange(rows, dtype=np.int64)
    order = numbers.reshape(2, -1, _BLOCK).transpose(1, 0, 2).reshape(-1)
    return matrix.rows(order) if isinstance(matrix, CodedMatrix) else matrix[order]
