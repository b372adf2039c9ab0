"""Pure ASGI middleware, one class a file, for any ASGI app.

A name is loaded when it is first used: what one of them needs, the others do without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.middleware.access_log import AccessLogMiddleware
    from millstream.middleware.audit import AuditMiddleware
    from millstream.middleware.authentication import AuthenticationMiddleware
    from millstream.middleware.failures import FailureMiddleware
    from millstream.middleware.hook_events import Admitted, Ended, FirstByte, RequestHooks
    from millstream.middleware.hooks import HookMiddleware
    from millstream.middleware.limit_scopes import client_address_scopes, tenant_scopes
    from millstream.middleware.limits import LimitMiddleware
    from millstream.middleware.quota import QuotaMiddleware
    from millstream.middleware.request_id import RequestIdMiddleware
    from millstream.middleware.state import RequestState, state_of

__all__ = [
    "AccessLogMiddleware",
    "Admitted",
    "AuditMiddleware",
    "AuthenticationMiddleware",
    "Ended",
    "FailureMiddleware",
    "FirstByte",
    "HookMiddleware",
    "LimitMiddleware",
    "QuotaMiddleware",
    "RequestHooks",
    "RequestIdMiddleware",
    "RequestState",
    "client_address_scopes",
    "state_of",
    "tenant_scopes",
]

_HOMES = {
    "access_log": ("AccessLogMiddleware",),
    "audit": ("AuditMiddleware",),
    "authentication": ("AuthenticationMiddleware",),
    "failures": ("FailureMiddleware",),
    "hook_events": ("Admitted", "Ended", "FirstByte", "RequestHooks"),
    "hooks": ("HookMiddleware",),
    "limit_scopes": ("client_address_scopes", "tenant_scopes"),
    "limits": ("LimitMiddleware",),
    "quota": ("QuotaMiddleware",),
    "request_id": ("RequestIdMiddleware",),
    "state": ("RequestState", "state_of"),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}

# Type checkers take such a function for leave to import any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOME_OF[name]), name)
