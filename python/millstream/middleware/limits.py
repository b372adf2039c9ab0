"""Limits on whole requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.admission.base import Cost
from millstream.admission.headers import (
    lease_headers,
    refusal_headers,
    refusal_message,
    violated,
)
from millstream.admission.leases import Lease, Refusal
from millstream.errors import CostExceedsLimit, LimiterUnavailable
from millstream.middleware.answers import answer
from millstream.middleware.response_start import response_start
from millstream.middleware.shown import route_of, shown, who
from millstream.middleware.state import state_of
from millstream.telemetry.audit import NoAudit
from millstream.types import Failure

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from millstream.admission import Limiter, ScopedLimits
    from millstream.telemetry.audit import AuditLog

ONE_REQUEST = Cost(tokens=1)
UNAVAILABLE_RETRY_SECONDS = 5


def one_request(_scope: Scope) -> Cost:
    """One request, one place among the open ones, and a token."""
    return ONE_REQUEST


class LimitMiddleware:
    """Takes each request's cost from its scopes before the app runs, or answers 429 or 400.

    The lease is in the request's state, `quota_remaining` too, and the response carries the
    ``x-ratelimit-*`` fields. It is held until the app has returned, which is when its response has
    ended, and then charged as reserved, unless the app has ended it by its own count. So it is for
    an app that raises and for a request that is cancelled, before the response or in it: who makes
    an app fail would otherwise go unlimited.

    Where ``cost`` is None the app reserves by itself, as Millstream's own routes do, which know
    their tokens when they have read the body. Then ``peeks`` says whether to look what is left, one
    question to the limiter, and nothing else is done. Requests without scopes are not limited, nor
    are web sockets. 503 while the limiter cannot be reached and its answer may not be guessed.
    """

    def __init__(
        self,
        app: ASGIApp,
        limiter: Limiter,
        scopes: Callable[[Scope], tuple[ScopedLimits, ...]],
        *,
        cost: Callable[[Scope], Cost | None] = one_request,
        peeks: bool = False,
        audit: AuditLog | None = None,
    ) -> None:
        self.app = app
        self._limiter = limiter
        self._scopes = scopes
        self._cost = cost
        self._peeks = peeks
        self._audit = audit or NoAudit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        cost = self._cost(scope)
        scopes = self._scopes(scope) if cost is not None or self._peeks else ()
        if not scopes:
            await self.app(scope, receive, send)
        elif cost is None:
            await self._peek(scope, scopes)
            await self.app(scope, receive, send)
        else:
            await self._limited(scope, receive, send, scopes, cost)

    async def _limited(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        scopes: tuple[ScopedLimits, ...],
        cost: Cost,
    ) -> None:
        try:
            lease = await self._limiter.reserve(scopes, cost)
        except CostExceedsLimit as error:
            failure = Failure(str(error), "invalid_request_error", error.code)
            await answer(scope, send, 400, failure, {"x-should-retry": "false"})
        except LimiterUnavailable as error:
            failure = Failure(str(error), "server_error", error.code)
            retry = {"retry-after": str(UNAVAILABLE_RETRY_SECONDS)}
            await answer(scope, send, 503, failure, retry)
        else:
            if isinstance(lease, Refusal):
                await self._refuse(scope, send, lease)
            else:
                await self._admitted(scope, receive, send, lease)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send, lease: Lease) -> None:
        try:
            state = state_of(scope)
            state["lease"] = lease
            state["quota_remaining"] = lease.quota_remaining
            start, send = response_start(scope, send)
            start.add_fields(_fields(lease))
            if "life" in state:
                state["life"].admitted()
            await self.app(scope, receive, send)
        finally:
            lease.settle(lease.tokens)

    async def _peek(self, scope: Scope, scopes: tuple[ScopedLimits, ...]) -> None:
        try:
            snapshot = await self._limiter.peek(scopes)
        except LimiterUnavailable:
            # Unknown, not unlimited: whoever reserves says so to the client.
            return
        tokens = snapshot.tokens
        state_of(scope)["quota_remaining"] = None if tokens is None else tokens.remaining

    async def _refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        self._audit.record(
            "limit_refused",
            method=shown(scope["method"]),
            route=route_of(scope),
            scope=shown(refusal.scope),
            dimension=refusal.dimension,
            **who(state_of(scope)),
        )
        failure = Failure(refusal_message(refusal), "rate_limit_error", "rate_limit_exceeded")
        headers, beside = refusal_headers(refusal), violated(refusal)
        await answer(scope, send, 429, failure, headers, beside)


def _fields(lease: Lease) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in lease_headers([lease]).items()]
