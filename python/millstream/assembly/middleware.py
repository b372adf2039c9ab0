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
from millstream.middleware.limits import LimitMiddleware
from millstream.middleware.request_id import RequestIdMiddleware

if TYPE_CHECKING:
    from starlette.types import Scope

    from millstream.assembly.limits_in_force import LimitsInForce
    from millstream.config import Settings
    from millstream.identity.authenticator import Authenticator
    from millstream.middleware.hook_events import RequestHooks
    from millstream.telemetry.audit import AuditLog


def chain(
    settings: Settings,
    *,
    authenticator: Authenticator,
    limits: LimitsInForce,
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
        Middleware(AuthenticationMiddleware, authenticator=authenticator, audit=audit),
        *_limits(settings, limits, reloads=reloads),
        *([Middleware(AuditMiddleware, audit=audit)] if settings.audit.kind != "off" else []),
        *([Middleware(AccessLogMiddleware)] if settings.log.access else []),
        Middleware(FailureMiddleware),
    ]


def _limits(settings: Settings, limits: LimitsInForce, *, reloads: bool) -> list[Middleware]:
    """Says what is left; the routes reserve, who have read the body and count its tokens.

    Not with a shared limiter: every request would wait for an answer over the network, and the
    routes have the figure from their reservation anyway.
    """
    if settings.limiter.kind != "memory" or not (limited(settings) or reloads):
        return []
    return [
        Middleware(
            LimitMiddleware, limiter=limits, scopes=limits.scopes, cost=_by_route, peeks=True
        )
    ]


def _by_route(_scope: Scope) -> None:
    return None
