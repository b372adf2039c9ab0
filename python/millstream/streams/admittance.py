"""The leases of all branches of a stream, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millstream.admission import Lease, Refusal
from millstream.errors import CostExceedsLimit

if TYPE_CHECKING:
    from millstream.admission import MemoryLimiter


@dataclass(frozen=True, slots=True)
class Demand:
    """What one branch may come to at most, in tokens."""

    model: str
    tokens: int


def admit_all(limiter: MemoryLimiter, demands: Sequence[Demand]) -> list[Lease] | Refusal:
    """A lease for each, or the first refusal with nothing taken.

    Raises `CostExceedsLimit` where no waiting would let all of them in together.
    """
    leases: list[Lease] = []
    try:
        for demand in demands:
            admitted = limiter.admit(demand.model, demand.tokens)
            if isinstance(admitted, Refusal):
                _give_back(leases)
                _check_possible(admitted, demands)
                return admitted
            leases.append(admitted)
    except BaseException:
        _give_back(leases)
        raise
    return leases


def _give_back(leases: Sequence[Lease]) -> None:
    for lease in leases:
        lease.undo()


def _check_possible(refusal: Refusal, demands: Sequence[Demand]) -> None:
    # Each fits alone, or the limiter would have said so.
    if len(demands) == 1:
        return
    meter = getattr(refusal.snapshot, refusal.dimension)
    if meter is None or meter.scope != refusal.scope:
        return
    inside = [d.tokens for d in demands if refusal.scope in ("global", f"model:{d.model}")]
    needed = sum(inside) if refusal.dimension == "tokens" else len(inside)
    if needed > meter.limit:
        raise CostExceedsLimit(
            f"the branches need {needed} {refusal.dimension} together, but the limit of "
            f"{refusal.scope} is {meter.limit}",
            param="branches",
        )
