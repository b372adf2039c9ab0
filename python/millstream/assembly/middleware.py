"""The chain around the routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.middleware import Middleware

from millstream.api import cors
from millstream.assembly.limits import limited
from millstream.middleware.access_log import AccessLogMiddleware
from millstream.middleware.audit import AuditMiddleware
from millstream.middleware.authentication import AuthenticationMiddleware
from millstream.middleware.failures import FailureMiddleware
from millstream.middleware.hooks import HookMiddleware
from millstream.middleware.quota import QuotaMiddleware
from millstream.middleware.request_id import RequestIdMiddleware
from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from starlette.types import Scope

    from millstream.admission import Snapshot
    from millstream.api.services import Services
    from millstream.config import Settings
    from millstream.identity.authenticator import Authenticator
    from millstream.middleware.hook_events import RequestHooks
    from millstream.telemetry.audit import AuditLog


def chain(
    settings: Settings,
    *,
    authenticator: Authenticator,
    audit: AuditLog,
    hooks: Sequence[RequestHooks] = (),
    reloads: bool = False,
) -> list[Middleware]:
    """Every middleware of the server, outermost first; what is switched off is left out.

    ``reloads``: limits may come while the server runs.
    """
    return [
        *cors.middleware(settings.server.cors_origins),
        Middleware(RequestIdMiddleware),
        # Around whatever may refuse: a refusal is an outcome too.
        *([Middleware(HookMiddleware, hooks=hooks)] if hooks else []),
        Middleware(
            AuthenticationMiddleware,
            authenticator=authenticator,
            audit=audit,
            # Which stands further in: nothing is passed on to it from here.
            refusals=AccessLogMiddleware if settings.log.access else None,
        ),
        *_quota(settings, reloads=reloads),
        *([Middleware(AuditMiddleware, audit=audit)] if settings.audit.kind != "off" else []),
        *([Middleware(AccessLogMiddleware)] if settings.log.access else []),
        Middleware(FailureMiddleware),
    ]


def _quota(settings: Settings, *, reloads: bool) -> list[Middleware]:
    """Says what is left; the routes reserve, who have read the body and count its tokens.

    Not with a shared limiter: every request would wait for an answer over the network, and the
    routes have the figure from their reservation anyway.
    """
    if settings.limiter.kind != "memory" or not (limited(settings) or reloads):
        return []
    return [Middleware(QuotaMiddleware, peek=_left)]


async def _left(scope: Scope) -> Snapshot | None:
    """What the tenant of this request has left, whatever model it will ask for."""
    services: Services | None = getattr(scope["app"].state, "services", None)
    tenant = state_of(scope).get("tenant")
    if services is None or tenant is None:
        return None
    return await services.orchestrator.admission.peek(tenant, "")
