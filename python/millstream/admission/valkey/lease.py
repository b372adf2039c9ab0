"""A lease that Valkey counts: its endings are sent on their way, nobody waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from millstream.admission.costs import MOST
from millstream.admission.leases import Lease

if TYPE_CHECKING:
    from millstream.admission.base import Cost, ScopedLimits
    from millstream.admission.meters import Snapshot
    from millstream.admission.valkey.calls import Charges
    from millstream.admission.valkey.quotas import Scopes


class Endings(Protocol):
    """Where leases send their endings."""

    def end(self, lease: ValkeyLease, *, undone: bool, actual: int) -> None:
        """Send the ending of a lease that is not known to have expired."""
        ...

    def has_expired(self, lease: ValkeyLease) -> bool:
        """Whether the lease was neither ended nor renewed in all its time."""
        ...


class ValkeyLease(Lease):
    """What was reserved, where it was charged, and until when it certainly has expired."""

    __slots__ = (
        "_charged",
        "_endings",
        "charges",
        "cost",
        "ended",
        "expires_ns",
        "name",
        "scopes",
        "taken",
    )

    def __init__(
        self,
        name: str,
        scopes: Scopes,
        cost: Cost,
        charges: Charges,
        snapshot: Snapshot,
        expires_ns: int,
        endings: Endings,
    ) -> None:
        self.name = name
        self.scopes = scopes
        self.cost = cost
        self.charges = charges
        self.taken = snapshot
        self.expires_ns = expires_ns
        self.ended = False
        self._charged = cost.tokens
        self._endings = endings

    @property
    def tokens(self) -> int:
        """Tokens reserved in all."""
        return self.cost.tokens

    @property
    def snapshot(self) -> Snapshot:
        """What was left right after the reservation."""
        return self.taken

    @property
    def limits(self) -> tuple[ScopedLimits, ...]:
        """Those that it was reserved under."""
        return self.scopes.members

    def settle(self, actual: int) -> bool:
        """Charge the tokens that were really used, and the request."""
        return self._end(_tokens(actual))

    def cancel(self, emitted: int) -> bool:
        """Charge the prompt and the tokens emitted until the stream was given up."""
        return self._end(self.cost.prompt_tokens + _tokens(emitted))

    def undo(self) -> bool:
        """Charge nothing, not even the request: for a stream that never came to be."""
        return self._end(0, undone=True)

    def renew(self) -> bool:
        """Whether the lease is open; renewed it is by the limiter, with all others at once."""
        return not self.ended and not self._endings.has_expired(self)

    def remaining_tokens(self) -> int | None:
        """Tokens left in the tightest scope as of the admission, with what this lease has given
        back since, or less what it took beyond its reservation; None is no limit.

        What others have taken meanwhile is not in it: to know that would be a call to Valkey.
        """
        meter = self.taken.tokens
        if meter is None:
            return None
        left = meter.remaining + self.cost.tokens - self._charged
        return min(max(left, 0), meter.limit)

    def _end(self, actual: int, *, undone: bool = False) -> bool:
        if self.ended or self._endings.has_expired(self):
            return False
        self.ended = True
        self._charged = actual
        self._endings.end(self, undone=undone, actual=actual)
        return True


def _tokens(number: int) -> int:
    if not 0 <= number <= MOST:
        raise ValueError(f"a cost must lie in 0..={MOST}, not {number}")
    return number
