"""The plain twin of the paged cache: dictionaries of tokens, attention in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class PlainAttention:
    """Keys and values of each slot by position; nothing is paged, nothing is shared."""

    def __init__(self, kv_heads: int) -> None:
        self._kv_heads = kv_heads
        self._stored: dict[tuple[int, int], dict[int, tuple[Array, Array]]] = {}

    def attend(
        self,
        layer: int,
        rows: Sequence[tuple[int, int, int]],
        query: npt.ArrayLike,
        key: npt.ArrayLike,
        value: npt.ArrayLike,
    ) -> Array:
        """Rows are (slot, start, count); arrays are ``[tokens, heads, head_dim]``."""
        queries, keys, values = (np.asarray(part, np.float64) for part in (query, key, value))
        answers, token = [], 0
        for slot, start, count in rows:
            stored = self._stored.setdefault((layer, slot), {})
            for position in range(start, start + count):
                stored[position] = (keys[token], values[token])
                answers.append(self._one(queries[token], stored, position))
                token += 1
        return np.stack(answers)

    def _one(self, query: Array, stored: dict[int, tuple[Array, Array]], position: int) -> Array:
        group = len(query) // self._kv_heads
        visible = [stored[earlier] for earlier in range(position + 1)]
        keys = np.stack([pair[0] for pair in visible])
        values = np.stack([pair[1] for pair in visible])
        return np.stack(
            [
                _softmax(keys[:, head // group] @ vector / np.sqrt(len(vector)))
                @ values[:, head // group]
                for head, vector in enumerate(query)
            ]
        )


def _softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max())
    normed: Array = weights / weights.sum()
    return normed
