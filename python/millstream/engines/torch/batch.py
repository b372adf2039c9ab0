"""The border between the scheduler and the model: what one step computes.

Nothing here needs torch, so that the scheduler can be tested without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """What one sequence computes in one step.

    **Decode**: ``tokens`` is empty. The input is the token that this slot sampled last; it is
    read on the device and may not have reached the host yet. Its key and value are written at
    position ``num_cached_tokens``.

    **Prefill**: ``tokens`` is the next chunk of the prompt (after a preemption: of the prompt and
    all tokens generated so far); its keys and values are written at positions
    ``num_cached_tokens ...``. Pages that a prefix match filled count as cached: at least one
    token must remain to be computed, or there is nothing to sample from.
    """

    slot: int
    """Stable place of the sequence in the device state, below ``max_batch``; one row a slot."""
    block_table: Sequence[int]
    """Pages of the sequence in order, enough for all positions up to this step's last.

    From ``open_slot`` to ``close_slot`` the table of a slot may only grow at its end: the runner
    copies entries that it has not seen yet and never looks at the earlier ones again.
    """
    num_cached_tokens: int
    """Tokens whose keys and values are in the pages before this step; the first position."""
    tokens: Sequence[int] = ()
    sample: bool = True
    """Sample the next token after the row's last position: decode rows and last chunks."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one step, in any order and mixture; at least one."""

    rows: Sequence[Row]


class StepHandle(Protocol):
    """The sampled tokens of one step, on their way to the host."""

    @property
    def slots(self) -> list[int]:
        """Slots of the rows that sampled, in row order."""

    def ids(self) -> list[int]:
        """Sampled ids, one for each of ``slots``; waits for the copy if it is under way.

        At most three further steps may start before this is called: the buffers are reused.
        """
