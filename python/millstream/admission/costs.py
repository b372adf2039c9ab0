"""Which costs there are, and how a limiter says that one can never be granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.errors import CostExceedsLimit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from millstream.admission.base import Cost, ScopedLimits
    from millstream.admission.leases import Dimension
    from millstream.admission.policies import Limits

MOST = 1 << 40
"""No cost is larger, in any dimension."""


def check_cost(cost: Cost) -> None:
    """Raise ValueError for a cost that no limiter takes: none below 1 token, none above 2**40."""
    if not 1 <= cost.tokens <= MOST:
        raise ValueError(f"a cost is 1 to 2**40 tokens, not {cost.tokens}")
    for name in ("requests", "prompt_tokens", "kibibytes"):
        amount = getattr(cost, name)
        if not 0 <= amount <= MOST:
            raise ValueError(f"a cost is 0 to 2**40 {name}, not {amount}")


def impossible(
    scopes: Iterable[ScopedLimits], scope: str, dimension: Dimension, cost: Cost
) -> CostExceedsLimit:
    """The failure of a cost that this dimension of this scope could never grant."""
    limits = next(scoped.limits for scoped in scopes if scoped.scope == scope)
    where = described(scope)
    if dimension == "tokens" and limits.tokens is not None:
        limit = f"{limits.tokens.limit} tokens per {limits.tokens.window_ms} ms"
        message = f"the request reserves {cost.tokens} tokens, but the limit of {where} is {limit}"
        return CostExceedsLimit(message, param="max_tokens")
    if dimension == "bytes" and limits.bytes_in_flight is not None:
        return CostExceedsLimit(_too_many_bytes(limits.bytes_in_flight.limit, where, cost))
    if _capacity(limits, dimension):
        return CostExceedsLimit(
            f"the request takes {cost.requests} requests, more than {where} ever grants at once"
        )
    return CostExceedsLimit(f"{where} admits nothing: its limit of {dimension} is 0")


def described(scope: str) -> str:
    """A scope in words, for whom it limits."""
    kind, _, name = scope.partition(":")
    if not name:
        return "the server" if kind == "global" else scope
    if kind == "model":
        return f"the model {name!r}"
    tenant, slash, model = name.partition("/model:")
    return f"the tenant {tenant!r} for the model {model!r}" if slash else f"the tenant {tenant!r}"


def _too_many_bytes(limit: int, where: str, cost: Cost) -> str:
    return (
        f"the request holds {cost.kibibytes} KiB, but the limit of {where} is {limit // 1024} KiB"
    )


def _capacity(limits: Limits, dimension: Dimension) -> bool:
    rate = limits.requests
    if dimension != "requests" or rate is None:
        return False
    return rate.burst > 0 and rate.fraction > 0
