"""The calls that a limiter makes of the script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from millstream.admission.shared_quota import UNIT_NS
from millstream.admission.valkey.quotas import ScopeBook, Scopes
from millstream.admission.valkey.script import SERVER_TIME, Call

if TYPE_CHECKING:
    from millstream.admission.base import Cost

SPARE_MS = 10_000
"""How much longer than needed idle keys are kept: a TTL that is cut short must lose nothing."""

Charges = Sequence[Sequence[int]]
"""Of each scope: ring, rate, slot and time that a lease was charged to, as `reserve` told them."""

UNKNOWN = (-1, -1, 0, 0)
"""A charge to which nothing is ever given back."""


class Calls:
    """Calls for leases that live for ``lease_ns``.

    ``reading`` replaces the server's own clock, for tests, in units of 500 ns.
    """

    def __init__(
        self, book: ScopeBook, *, lease_ns: int, reading: Callable[[], int] | None = None
    ) -> None:
        self._book = book
        names = ("account", "renew", "peek", "probe")
        settings = (reading or SERVER_TIME, lease_ns // UNIT_NS, SPARE_MS)
        heads = ((name, *settings) for name in names)
        self._account, self._renew, self._peek, self._probe = heads

    def reserve(self, scopes: Scopes, lease: str, cost: Cost, *, again: bool = False) -> Call:
        """Take ``cost`` from all scopes under the name ``lease``, which ends in ``:KiB``.

        ``again`` after a call that may have been carried out. Answers `[1, charges, meters]`, or
        `[0, [scope, dimension, wait, permanent], meters]` with scopes and dimensions from 1 on.
        """
        item = ("reserve", lease, again, cost.requests, cost.tokens, cost.kibibytes)
        return Call(scopes.keys, self._account, item, scopes.quotas)

    def finish(
        self,
        scopes: Scopes,
        lease: str,
        cost: Cost,
        charges: Charges,
        *,
        actual: int,
        undone: bool = False,
    ) -> Call:
        """End a lease on ``actual`` tokens; ``undone`` gives the requests back too.

        Answers whether it was open.
        """
        item = ("finish", lease, undone, actual, cost.tokens, cost.requests, charges)
        return Call(scopes.keys, self._account, item)

    def renew(self, leases: Mapping[str, Sequence[str]]) -> Call:
        """Renew leases, each with the names of its scopes; answers whether each was open."""
        members: dict[str, list[str]] = {}
        for lease, scopes in leases.items():
            for scope in scopes:
                members.setdefault(scope, []).append(lease)
        item = (list(leases), list(members.values()))
        return Call(self._book.keys(list(members)), self._renew, item)

    def peek(self, scopes: Scopes) -> Call:
        """Answers the meters; takes nothing."""
        return Call(scopes.keys, self._peek, (), scopes.quotas)

    def probe(self) -> Call:
        """Whether Valkey carries out the script, and lets it write."""
        return Call(self._book.probe, self._probe, ())
