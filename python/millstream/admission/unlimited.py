"""A lease where nothing is limited."""

from __future__ import annotations

from millstream.admission.leases import Lease
from millstream.admission.meters import NOTHING_LIMITED, Snapshot


class UnlimitedLease(Lease):
    """What a reservation without scopes gets, from every limiter; ends once like any other."""

    __slots__ = ("_open", "_tokens")

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._open = True

    @property
    def tokens(self) -> int:
        """Tokens reserved in all."""
        return self._tokens

    @property
    def snapshot(self) -> Snapshot:
        """No meter at all."""
        return NOTHING_LIMITED

    def settle(self, actual: int) -> bool:
        """End it."""
        return self._end()

    def cancel(self, emitted: int) -> bool:
        """End it."""
        return self._end()

    def undo(self) -> bool:
        """End it."""
        return self._end()

    def renew(self) -> bool:
        """False if it has ended."""
        return self._open

    def remaining_tokens(self) -> int | None:
        """No limit."""
        return None

    def _end(self) -> bool:
        was_open, self._open = self._open, False
        return was_open
