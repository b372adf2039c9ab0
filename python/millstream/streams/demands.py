"""What a generation asks of the limits, and what it makes of those that are near."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from millstream.admission import KIBIBYTE, Demand, estimated_cost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from millstream.admission import Admission, Lease
    from millstream.streams.orchestrator import BranchRequest, Generation


def demands_of(generation: Generation, admission: Admission, log_bytes: int) -> list[Demand]:
    """One demand a branch.

    The branches share one log of at most ``log_bytes``, so those whose memory is limited hold equal
    shares of it.
    """
    limited = [
        admission.bytes_per_stream(generation.tenant, branch.model) is not None
        for branch in generation.branches
    ]
    share = -(-log_bytes // (KIBIBYTE * max(sum(limited), 1)))
    return [
        Demand(
            generation.tenant,
            branch.model,
            branch.cost,
            prompt_tokens=len(branch.prompt),
            kibibytes=share if holds else 0,
            least_tokens=_least(branch, generation.least_tokens),
        )
        for branch, holds in zip(generation.branches, limited, strict=True)
    ]


def log_bytes(generation: Generation, admission: Admission, own: int) -> int:
    """The most that the stream's log may keep: its ``own`` bound, or what the limits grant one."""
    caps = [
        admission.bytes_per_stream(generation.tenant, branch.model)
        for branch in generation.branches
    ]
    return min([own, *(cap for cap in caps if cap is not None)])


def granted(generation: Generation, leases: Sequence[Lease]) -> Generation:
    """The same for what has been reserved, where that is less than was asked for."""
    if not generation.least_tokens:
        return generation
    branches = zip(generation.branches, leases, strict=True)
    return msgspec.structs.replace(
        generation, branches=tuple(_granted(branch, lease.tokens) for branch, lease in branches)
    )


def _granted(branch: BranchRequest, tokens: int) -> BranchRequest:
    if branch.cost <= tokens:
        return branch
    params = branch.engine.adapted(branch.params, len(branch.prompt), tokens)
    return msgspec.structs.replace(branch, params=params)


def _least(branch: BranchRequest, least_tokens: int) -> int | None:
    if not least_tokens:
        return None
    params = branch.params
    return estimated_cost(len(branch.prompt), min(least_tokens, params.max_tokens), params.n)
