"""What a middleware answers in the app's stead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope, Send

    from millstream.types import Failure


async def answer(
    scope: Scope,
    send: Send,
    status: int,
    failure: Failure,
    headers: Mapping[str, str] | None = None,
    beside: Mapping[str, object] | None = None,
) -> None:
    """Send an OpenAI error object under this status; the request's body is left unread.

    ``beside`` are members of the answer next to its ``error``.
    """
    body = msgspec.json.encode({"error": failure, **(beside or {})})
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    fields += [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    content = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": content, "more_body": False})
