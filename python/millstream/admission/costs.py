"""Which costs there are, and how a limiter says that one can never be granted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from millstream.errors import CostExceedsLimit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from millstream.admission.base import Cost, ScopedLimits
    from millstream.admission.book import LimitBook
    from millstream.admission.demand import Demand
    from millstream.admission.meters import Dimension
    from millstream.admission.policies import Limits

MOST = 1 << 40
"""No cost is larger, in any dimension."""

_UNITS: dict[Dimension, str] = {
    "requests": "requests",
    "tokens": "tokens",
    "concurrency": "open streams",
    "bytes": "KiB",
}


def check_cost(cost: Cost) -> None:
    """Raise ValueError for a cost that no limiter takes: none below 1 token, none above 2**40."""
    if not 1 <= cost.tokens <= MOST:
        raise ValueError(f"a cost is 1 to 2**40 tokens, not {cost.tokens}")
    for name in ("requests", "prompt_tokens", "kibibytes"):
        amount = getattr(cost, name)
        if not 0 <= amount <= MOST:
            raise ValueError(f"a cost is 0 to 2**40 {name}, not {amount}")
    if cost.prompt_tokens > cost.tokens:
        raise ValueError(f"a prompt of {cost.prompt_tokens} tokens exceeds the cost: {cost.tokens}")


def impossible(
    scopes: Iterable[ScopedLimits], scope: str, dimension: Dimension, cost: Cost
) -> CostExceedsLimit:
    """The failure of a cost that this dimension of this scope could never grant."""
    limits = next(scoped.limits for scoped in scopes if scoped.scope == scope)
    where, capacity = described(scope), capacities(limits)[dimension]
    if dimension == "tokens" and limits.tokens is not None:
        limit = f"{capacity} tokens per {limits.tokens.window_ms} ms"
        message = f"the request reserves {cost.tokens} tokens, but the limit of {where} is {limit}"
        return CostExceedsLimit(message, param="max_tokens")
    if not capacity:
        return CostExceedsLimit(f"{where} admits nothing: its limit of {dimension} is 0")
    needed = f"{amounts(cost)[dimension]} {_UNITS[dimension]}"
    return CostExceedsLimit(f"the request needs {needed}, but the limit of {where} is {capacity}")


def check_possible(book: LimitBook, demands: Sequence[Demand]) -> None:
    """Raise `CostExceedsLimit` if no waiting would let all of these in together."""
    needed: Counter[tuple[str, Dimension]] = Counter()
    most: dict[tuple[str, Dimension], int] = {}
    for demand in (demand.cut_to(0) for demand in demands):
        scopes, asked = book.scopes(demand.tenant, demand.model), amounts(demand.cost)
        for scope, limits in scopes:
            for dimension, capacity in capacities(limits).items():
                if asked[dimension] > capacity:
                    raise impossible(scopes, scope, dimension, demand.cost)
                needed[scope, dimension] += asked[dimension]
                most[scope, dimension] = capacity
    for (scope, dimension), amount in needed.items():
        if amount > most[scope, dimension]:
            raise CostExceedsLimit(
                f"the branches need {amount} {_UNITS[dimension]} together, but the limit of "
                f"{described(scope)} is {most[scope, dimension]}",
                param="branches",
            )


def described(scope: str) -> str:
    """A scope in words, for whom it limits."""
    kind, _, name = scope.partition(":")
    if not name:
        return "the server" if kind == "global" else scope
    if kind == "model":
        return f"the model {name!r}"
    tenant, slash, model = name.partition("/model:")
    if kind != "tenant":
        return scope
    return f"the tenant {tenant!r} for the model {model!r}" if slash else f"the tenant {tenant!r}"


def amounts(cost: Cost) -> dict[Dimension, int]:
    """What it takes of each dimension."""
    return {
        "requests": cost.requests,
        "tokens": cost.tokens,
        "concurrency": 1,
        "bytes": cost.kibibytes,
    }


def capacities(limits: Limits) -> dict[Dimension, int]:
    """What each dimension that is limited can grant at once."""
    found: dict[Dimension, int] = {}
    if limits.requests is not None:
        found["requests"] = limits.requests.burst if limits.requests.fraction else 0
    if limits.tokens is not None:
        found["tokens"] = limits.tokens.limit
    if limits.concurrency is not None:
        found["concurrency"] = limits.concurrency
    if limits.bytes_in_flight is not None:
        found["bytes"] = limits.bytes_in_flight.kibibytes
    return found
