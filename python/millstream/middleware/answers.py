"""What a middleware answers in the app's stead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from starlette.types import Scope, Send

    from millstream.middleware.error_answer import ErrorAnswer


async def answer(scope: Scope, send: Send, told: ErrorAnswer) -> None:
    """Send an OpenAI error object that no cache keeps; the request's body is left unread."""
    body = msgspec.json.encode({"error": told.failure, **told.beside})
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    fields += [(name.encode(), value.encode()) for name, value in told.headers.items()]
    await send({"type": "http.response.start", "status": told.status, "headers": fields})
    content = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": content, "more_body": False})
