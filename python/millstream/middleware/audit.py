"""Who did what."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from millstream.middleware.ending import ended_by
from millstream.middleware.response_start import response_start
from millstream.middleware.shown import route_of, shown, who
from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from millstream.middleware.ending import Ending
    from millstream.telemetry.audit import AuditLog

READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that neither change nor spend anything (RFC 9110, safe methods)."""
REFUSED = frozenset({401, 403, 429})
"""Statuses that are written down whatever was asked."""


class AuditMiddleware:
    """Writes one record for every request that may change or spend something, at its end.

    So it does for one that only reads and that the app refuses. What further out refuses a request
    records that itself: nothing arrives here then. Of what was asked only the route's template is
    written, no path, no query, no body and no header.
    """

    def __init__(self, app: ASGIApp, audit: AuditLog) -> None:
        self.app = app
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, send = response_start(scope, send)
        await ended_by(self.app(scope, receive, send), scope, start, partial(self._record, scope))

    def _record(self, scope: Scope, ending: Ending) -> None:
        if scope["method"] in READING and ending.status not in REFUSED:
            return
        state = state_of(scope)
        self._audit.record(
            "request",
            method=shown(scope["method"]),
            route=route_of(scope),
            status=ending.status,
            outcome=ending.outcome,
            scopes=_scopes(state.get("scopes")),
            **who(state),
        )


def _scopes(scopes: frozenset[str] | None) -> str | None:
    return None if scopes is None else shown(" ".join(sorted(scopes)))
