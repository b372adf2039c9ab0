"""What is left for a request before its route knows what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.errors import LimiterUnavailable
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

    def scopes(self, scope: Scope) -> tuple[ScopedLimits, ...]:
        """What limits the tenant of this request, whatever model it asks for."""
        tenant = state_of(scope).get("tenant")
        if self.admission is None or tenant is None:
            return ()
        return self.admission.scopes(tenant, "")

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
