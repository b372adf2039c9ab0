"""The leases of all branches of a stream, or none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from millstream.admission.leases import Lease, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from millstream.admission.base import Limiter
    from millstream.admission.book import LimitBook
    from millstream.admission.demand import Demand


async def reserve_all(
    limiter: Limiter, book: LimitBook, demands: Sequence[Demand]
) -> list[Lease] | Refusal:
    """A lease for each demand, or the first refusal with nothing taken.

    Raises what `Limiter.reserve` raises. Whether all could ever be in together is for the caller to
    ask (`check_possible`).
    """
    leases: list[Lease] = []
    try:
        for demand in demands:
            scopes = book.scopes(demand.tenant, demand.model)
            reserved = await limiter.reserve(scopes, demand.cost)
            if isinstance(reserved, Refusal):
                undo_all(leases)
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
