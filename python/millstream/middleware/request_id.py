"""A name for every request."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"
_ACCEPTED = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class RequestIdMiddleware:
    """Puts ``request_id`` into the request's state and onto the response.

    The client's own ``X-Request-Id`` is kept if it is short and plain, else one is made: it goes
    into logs, where a line end would be an injection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id.decode()

        # Not a coroutine: a stream pays for this on every batch that it sends.
        def send_named(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (HEADER, request_id)]
            return send(message)

        await self.app(scope, receive, send_named)


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == HEADER and _ACCEPTED.fullmatch(value):
            return bytes(value)
    return secrets.token_hex(16).encode()
