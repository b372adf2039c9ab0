"""What a middleware answers by itself: an OpenAI error object, before any of the body is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from millstream.errors import NotAllowed, NotAuthenticated
from millstream.types import Failure

if TYPE_CHECKING:
    from starlette.types import Scope, Send

REALM = 'realm="millstream"'
NO_CREDENTIAL = "missing"
"""The reason of a `NotAuthenticated` for a request that has no credential at all."""


async def answer_error(
    scope: Scope,
    send: Send,
    status: int,
    failure: Failure,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
) -> None:
    """Send this failure as the whole answer; to HEAD its head alone."""
    body = msgspec.json.encode({"error": failure})
    fields = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "cache-control": "no-store",
        **dict(headers),
    }
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (name.encode("latin-1"), fields[name].encode("latin-1")) for name in fields
            ],
        }
    )
    shown = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": shown, "more_body": False})


async def refuse(scope: Scope, send: Send, error: NotAuthenticated | NotAllowed) -> None:
    """Send 401 or 403, with the challenge of RFC 6750."""
    status = 401 if isinstance(error, NotAuthenticated) else 403
    failure = Failure(str(error), "invalid_request_error", error.code)
    await answer_error(scope, send, status, failure, challenge_headers(error))


def challenge_headers(error: NotAuthenticated | NotAllowed) -> dict[str, str]:
    """The `WWW-Authenticate` of this refusal; none where no other scope would help."""
    if isinstance(error, NotAllowed):
        if error.scope is None:
            return {}
        challenge = f'Bearer {REALM}, error="insufficient_scope", scope="{error.scope}"'
    elif error.reason == NO_CREDENTIAL:
        # RFC 6750, 3.1: who has sent nothing is told nothing of an error.
        challenge = f"Bearer {REALM}"
    else:
        challenge = f'Bearer {REALM}, error="invalid_token"'
    return {"www-authenticate": challenge}
