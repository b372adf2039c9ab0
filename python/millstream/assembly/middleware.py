"""The chain around the routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.middleware import Middleware

from millstream.api import cors
from millstream.middleware.access_log import AccessLogMiddleware
from millstream.middleware.audit import AuditMiddleware
from millstream.middleware.failures import FailureMiddleware
from millstream.middleware.hooks import HookMiddleware
from millstream.middleware.request_id import RequestIdMiddleware

if TYPE_CHECKING:
    from millstream.config import Settings
    from millstream.middleware.hook_events import RequestHooks
    from millstream.telemetry.audit import AuditLog


def chain(
    settings: Settings, *, audit: AuditLog, hooks: Sequence[RequestHooks] = ()
) -> list[Middleware]:
    """Every middleware of the server, outermost first; what is switched off is left out."""
    return [
        *cors.middleware(settings.server.cors_origins),
        Middleware(RequestIdMiddleware),
        # Around whatever may refuse: a refusal is an outcome too.
        *([Middleware(HookMiddleware, hooks=hooks)] if hooks else []),
        *([Middleware(AuditMiddleware, audit=audit)] if settings.audit.kind != "off" else []),
        *([Middleware(AccessLogMiddleware)] if settings.log.access else []),
        Middleware(FailureMiddleware),
    ]
