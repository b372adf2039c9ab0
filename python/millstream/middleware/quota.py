"""What is left of the limits, for an app that reserves by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from millstream.admission import Snapshot


class QuotaMiddleware:
    """Puts ``quota_remaining`` into the request's state, and takes nothing.

    For routes that know what they cost only when they have read the body, as Millstream's own do.
    ``peek`` says what is left; None where that is not known.
    """

    def __init__(self, app: ASGIApp, peek: Callable[[Scope], Awaitable[Snapshot | None]]) -> None:
        self.app = app
        self._peek = peek

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        left = await self._peek(scope) if scope["type"] == "http" else None
        if left is not None:
            tokens = left.tokens
            state_of(scope)["quota_remaining"] = None if tokens is None else tokens.remaining
        await self.app(scope, receive, send)
