"""Which limits hold for a request, where the app does not say it better."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from millstream.admission.base import ScopedLimits
from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from starlette.types import Scope

    from millstream.admission import Limits

REMEMBERED = 4096
"""Keys whose scopes are kept: a limiter knows again what it is given as the same tuple."""

Scopes = Callable[["Scope"], tuple[ScopedLimits, ...]]


def client_address_scopes(limits: Limits) -> Scopes:
    """Each address has these limits for itself; so have all clients without one together.

    Of IPv6 it is each network of 64 bits: that many addresses every client has, and could take a
    new one for each request. The address is the connection's: behind a proxy that is the proxy's,
    unless the server or a middleware further out has put the client's in its place.
    """

    of = _remembering("address", limits)

    def scopes(scope: Scope) -> tuple[ScopedLimits, ...]:
        client = scope.get("client")
        return of(_network(client[0]) if client else "")

    return scopes


def _network(address: str) -> str:
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"


def tenant_scopes(limits: Limits) -> Scopes:
    """Each tenant has these limits for itself; so have all requests without one together."""

    of = _remembering("tenant", limits)

    def scopes(scope: Scope) -> tuple[ScopedLimits, ...]:
        return of(state_of(scope).get("tenant", ""))

    return scopes


def _remembering(kind: str, limits: Limits) -> Callable[[str], tuple[ScopedLimits, ...]]:
    @lru_cache(REMEMBERED)
    def of(key: str) -> tuple[ScopedLimits, ...]:
        return (ScopedLimits(f"{kind}:{key}", limits),)

    return of
