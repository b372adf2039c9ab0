"""What is left for a request before its route knows what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.errors import LimiterUnavailable
from millstream.middleware.limit_scopes import REMEMBERED
from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from starlette.types import Scope

    from millstream.admission import Admission, Cost, Lease, Refusal, ScopedLimits, Snapshot


class LimitsInForce:
    """The limiter of an app for the middleware around it, which is made before there is one.

    ``admission`` is to be set when the app starts; the limits of each moment are those that the
    routes go by.
    """

    def __init__(self) -> None:
        self.admission: Admission | None = None
        self._known: dict[str, tuple[ScopedLimits, ...]] = {}

    def scopes(self, scope: Scope) -> tuple[ScopedLimits, ...]:
        """What limits the tenant of this request, whatever model it asks for."""
        tenant = state_of(scope).get("tenant")
        if self.admission is None or tenant is None:
            return ()
        return self._same(tenant, self.admission.scopes(tenant, ""))

    def _same(self, tenant: str, found: tuple[ScopedLimits, ...]) -> tuple[ScopedLimits, ...]:
        """These scopes as the tuple of last time, by which a limiter knows them again."""
        known = self._known.get(tenant)
        if known is not None and known == found:
            return known
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[tenant] = found
        return found

    async def start(self) -> None:
        """The app does that."""

    async def close(self) -> None:
        """The app does that."""

    async def reserve(self, scopes: tuple[ScopedLimits, ...], cost: Cost) -> Lease | Refusal:
        """As `Limiter.reserve`."""
        return await self._admission.limiter.reserve(scopes, cost)

    async def peek(self, scopes: tuple[ScopedLimits, ...]) -> Snapshot:
        """As `Limiter.peek`."""
        return await self._admission.limiter.peek(scopes)

    @property
    def _admission(self) -> Admission:
        if self.admission is None:
            raise LimiterUnavailable("The server has not started.")
        return self.admission
