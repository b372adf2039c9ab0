"""What every limiter looks like, whatever counts behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from millstream.admission.leases import Lease, Refusal
    from millstream.admission.meters import Snapshot
    from millstream.admission.policies import Limits


@dataclass(frozen=True, slots=True)
class Cost:
    """What a reservation takes from every scope.

    ``prompt_tokens`` of the ``tokens`` are spent even if nothing is generated; ``kibibytes`` are
    held, like the place among the open streams, until the lease ends.
    """

    tokens: int
    requests: int = 1
    prompt_tokens: int = 0
    kibibytes: int = 0


class ScopedLimits(NamedTuple):
    """A scope by its name (``global``, ``tenant:T``, ``model:M``, ``tenant:T/model:M``)."""

    scope: str
    limits: Limits


class Limiter(Protocol):
    """Counts what scopes use, and decides over several of them at once, all or nothing."""

    async def start(self) -> None:
        """Reach what is outside; returns also when it is away."""
        ...

    async def close(self) -> None:
        """Hand over the settlements that are still on their way."""
        ...

    async def reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        """Take ``cost`` from every scope, or nothing.

        Without scopes the lease is an `UnlimitedLease`. A scope that is known under other limits
        goes on under these: what is in use stays in use. A call that is cancelled has taken
        nothing in the end, also if the counters had granted it already.
        Raises CostExceedsLimit if no waiting could help, ValueError for a cost outside 1..2**40,
        LimiterUnavailable if the counters cannot be reached and may not be guessed.
        """
        ...

    async def peek(self, scopes: tuple[ScopedLimits, ...]) -> Snapshot:
        """What is left in the tightest scope of each dimension; takes nothing."""
        ...
