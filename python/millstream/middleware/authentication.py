"""Nobody passes whose credential does not hold."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from millstream.errors import KeysUnavailable, NotAllowed, NotAuthenticated
from millstream.middleware.answers import answer
from millstream.middleware.error_answer import error_answer
from millstream.middleware.shown import shown, who
from millstream.middleware.state import state_of
from millstream.telemetry.audit import NoAudit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from millstream.identity.authenticator import Authenticator, Identified
    from millstream.telemetry.audit import AuditLog

Refused = NotAuthenticated | NotAllowed | KeysUnavailable

PROBES = frozenset({"/healthz", "/readyz"})
"""Paths for those who watch the server and have no credential."""

_POLICY_VIOLATION = 1008


class AuthenticationMiddleware:
    """Puts ``principal``, ``tenant`` and ``scopes`` into the state, or answers 401 or 403.

    It answers before any of the body is read, and alike for paths that exist and those that do
    not; 503 while the keys cannot be had that tokens are checked with. A WebSocket is closed with
    1008 instead. ``open_paths``, below the one that the app is mounted at, are served as they come,
    with nothing in the state. What an application around this one has found stands while
    authentication is off. ``refusals`` is put around the app that answers one: middleware such as
    `AccessLogMiddleware` that stands inside of this one, and would not hear of them.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        *,
        audit: AuditLog | None = None,
        open_paths: Collection[str] = PROBES,
        refusals: Callable[[ASGIApp], ASGIApp] | None = None,
    ) -> None:
        self.app = app
        self._authenticator = authenticator
        self._audit = audit or NoAudit()
        self._open_paths = frozenset(open_paths)
        self._refusals = refusals or (lambda app: app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan" or _path_here(scope) in self._open_paths:
            await self.app(scope, receive, send)
            return
        try:
            identified = await self._authenticator.authenticate(scope)
        except (NotAuthenticated, NotAllowed, KeysUnavailable) as error:
            self._record_refusal(scope, error)
            await self._refusals(partial(_answer, error))(scope, receive, send)
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
        if identified.dropped:
            self._audit.record(
                "scopes_dropped",
                role=None if principal.role is None else shown(principal.role),
                dropped=shown(" ".join(sorted(identified.dropped))),
                **who(state),
            )

    def _record_refusal(self, scope: Scope, error: Refused) -> None:
        client, subject = scope.get("client"), getattr(error, "subject", None)
        # No path: it may name a stream, and no router has told which part of it would.
        self._audit.record(
            "not_allowed" if isinstance(error, NotAllowed) else "not_authenticated",
            reason=error.reason if isinstance(error, NotAuthenticated) else error.code,
            client=shown(client[0]) if client else None,
            **{**who(state_of(scope)), "subject": subject and shown(subject)},
        )


def _path_here(scope: Scope) -> str:
    """The path that routes see: without the ``root_path``, which some servers leave in it."""
    path: str = scope["path"]
    below = path.removeprefix(scope.get("root_path", ""))
    return below if not below or below.startswith("/") else path


async def _answer(error: Refused, scope: Scope, _receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": error.code})
        return
    await answer(scope, send, error_answer(error))
