"""What a generation asks of the limits, and what it makes of those that are near."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from millstream.admission import KIBIBYTE, Demand

if TYPE_CHECKING:
    from millstream.admission import Admission
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


async def adapted(generation: Generation, admission: Admission) -> Generation:
    """The same for what the token limits have left at this moment, evenly shared by its branches.

    Unchanged where everything fits, or nothing: then the limits have the word.
    """
    shares = len(generation.branches)
    branches = [
        await _adapted(branch, generation.tenant, admission, shares)
        for branch in generation.branches
    ]
    return msgspec.structs.replace(generation, branches=tuple(branches))


async def _adapted(
    branch: BranchRequest, tenant: str, admission: Admission, shares: int
) -> BranchRequest:
    tokens = (await admission.peek(tenant, branch.model)).tokens
    if tokens is None:
        return branch
    # Where nothing is left, what could ever be: so that waiting helps.
    for available in (tokens.remaining, tokens.limit):
        if branch.cost <= available // shares:
            return branch
        params = branch.engine.adapted(branch.params, len(branch.prompt), available // shares)
        if params is not branch.params:
            return msgspec.structs.replace(branch, params=params)
    return branch
