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

    Where nothing is left, the same for what they grant at most: then the limits have the word, and
    say how long to wait instead of that no waiting would help. Unchanged where everything fits, or
    never would.
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
    if tokens is None or branch.cost <= tokens.remaining // shares:
        return branch
    params, prompt = branch.params, len(branch.prompt)
    for affordable in (tokens.remaining, _most_tokens(admission, tenant, branch.model)):
        params = branch.engine.adapted(params, prompt, affordable // shares)
        if params != branch.params:
            break
    return msgspec.structs.replace(branch, params=params)


def _most_tokens(admission: Admission, tenant: str, model: str) -> int:
    """What the tightest limit on tokens grants while nobody uses it; 0 if there is none."""
    limits = [scoped.limits.tokens for scoped in admission.scopes(tenant, model)]
    return min((tokens.limit for tokens in limits if tokens is not None), default=0)
