"""Which limits hold for a request, where the app does not say it better."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.admission.base import ScopedLimits
from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from starlette.types import Scope

    from millstream.admission import Limits

Scopes = Callable[["Scope"], tuple[ScopedLimits, ...]]


def client_address_scopes(limits: Limits) -> Scopes:
    """Each address has these limits for itself; so have all clients without one together.

    The address is the connection's: behind a proxy that is the proxy's, unless the server or a
    middleware further out has put the client's in its place.
    """

    def scopes(scope: Scope) -> tuple[ScopedLimits, ...]:
        client = scope.get("client")
        return (ScopedLimits(f"address:{client[0] if client else ''}", limits),)

    return scopes


def tenant_scopes(limits: Limits) -> Scopes:
    """Each tenant has these limits for itself; so have all requests without one together."""

    def scopes(scope: Scope) -> tuple[ScopedLimits, ...]:
        return (ScopedLimits(f"tenant:{state_of(scope).get('tenant', '')}", limits),)

    return scopes
