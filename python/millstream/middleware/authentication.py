"""Nobody passes whose credential does not hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from millstream.errors import NotAllowed, NotAuthenticated
from millstream.middleware.answers import refuse
from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from millstream.identity.authenticator import Authenticator, Identified

PROBES = frozenset({"/healthz", "/readyz"})
"""Paths for those who watch the server and have no credential."""

_POLICY_VIOLATION = 1008


class Audit(Protocol):
    """Where it is written who was refused and whose scopes were trimmed."""

    def record(self, event: str, **fields: str | int | float | bool | None) -> None:
        """Write one event."""
        ...


class AuthenticationMiddleware:
    """Puts ``principal``, ``tenant`` and ``scopes`` into the state, or answers 401 or 403.

    It answers before any of the body is read, and alike for paths that exist and those that do
    not. A WebSocket is closed with 1008 instead. ``open_paths`` are served as they come, with
    nothing in the state. What an application around this one has found stands while
    authentication is off.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        *,
        audit: Audit | None = None,
        open_paths: Collection[str] = PROBES,
    ) -> None:
        self.app = app
        self._authenticator = authenticator
        self._audit = audit
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan" or scope["path"] in self._open_paths:
            await self.app(scope, receive, send)
            return
        try:
            identified = await self._authenticator.authenticate(scope)
        except (NotAuthenticated, NotAllowed) as error:
            self._record_refusal(scope, error)
            await _answer(scope, send, error)
            return
        self._enter(scope, identified)
        await self.app(scope, receive, send)

    def _enter(self, scope: Scope, identified: Identified) -> None:
        state, principal = state_of(scope), identified.principal
        if principal.kind == "anonymous" and "tenant" in state:
            return
        state["principal"] = principal
        state["tenant"] = identified.tenant
        state["scopes"] = identified.scopes
        if identified.dropped and self._audit is not None:
            self._audit.record(
                "scopes_dropped",
                request_id=state.get("request_id"),
                tenant=identified.tenant,
                subject=principal.subject,
                role=principal.role,
                dropped=" ".join(sorted(identified.dropped)),
            )

    def _record_refusal(self, scope: Scope, error: NotAuthenticated | NotAllowed) -> None:
        if self._audit is None:
            return
        known = isinstance(error, NotAllowed)
        self._audit.record(
            "tenant_refused" if known else "authentication_refused",
            request_id=state_of(scope).get("request_id"),
            reason=error.code if isinstance(error, NotAllowed) else error.reason,
            path=scope["path"],
        )


async def _answer(scope: Scope, send: Send, error: NotAuthenticated | NotAllowed) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.code})
        return
    await refuse(scope, send, error)
