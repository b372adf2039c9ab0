"""The leases of all branches of a stream, or none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from millstream.admission.costs import described
from millstream.admission.leases import Lease, Refusal
from millstream.errors import CostExceedsLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from millstream.admission.base import Limiter
    from millstream.admission.book import LimitBook
    from millstream.admission.demand import Demand


async def reserve_all(
    limiter: Limiter, book: LimitBook, demands: Sequence[Demand]
) -> list[Lease] | Refusal:
    """A lease for each demand, or the first refusal with nothing taken.

    Raises what `Limiter.reserve` raises, and `CostExceedsLimit` where no waiting would let all of
    them in together.
    """
    leases: list[Lease] = []
    try:
        for demand in demands:
            scopes = book.scopes(demand.tenant, demand.model)
            reserved = await limiter.reserve(scopes, demand.cost)
            if isinstance(reserved, Refusal):
                undo_all(leases)
                _check_possible(reserved, book, demands)
                if leases:
                    # What is left now that the other branches have given theirs back.
                    return replace(reserved, snapshot=await limiter.peek(scopes))
                return reserved
            leases.append(reserved)
    except BaseException:
        undo_all(leases)
        raise
    return leases


def undo_all(leases: Sequence[Lease]) -> None:
    """Charge nothing for any of them."""
    for lease in leases:
        lease.undo()


def _check_possible(refusal: Refusal, book: LimitBook, demands: Sequence[Demand]) -> None:
    # Each fits alone, or the limiter would have said so.
    if len(demands) == 1:
        return
    meter = getattr(refusal.snapshot, refusal.dimension)
    if meter is None or meter.scope != refusal.scope:
        return
    inside = [demand for demand in demands if _limits(book, refusal.scope, demand)]
    needed = sum(_amount(refusal, demand) for demand in inside)
    if needed > meter.limit:
        raise CostExceedsLimit(
            f"the branches need {needed} {_unit(refusal)} together, but the limit of "
            f"{described(refusal.scope)} is {meter.limit}",
            param="branches",
        )


def _limits(book: LimitBook, scope: str, demand: Demand) -> bool:
    return any(scoped.scope == scope for scoped in book.scopes(demand.tenant, demand.model))


def _amount(refusal: Refusal, demand: Demand) -> int:
    if refusal.dimension == "tokens":
        return demand.tokens
    return demand.kibibytes if refusal.dimension == "bytes" else 1


def _unit(refusal: Refusal) -> str:
    return "KiB" if refusal.dimension == "bytes" else refusal.dimension
