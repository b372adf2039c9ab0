"""What a client whose credential does not do is told, in RFC 6750's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.errors import KeysUnavailable, NotAuthenticated
from millstream.middleware.answers import answer
from millstream.types import Failure

if TYPE_CHECKING:
    from starlette.types import Scope, Send

    from millstream.errors import NotAllowed

    Refused = NotAuthenticated | NotAllowed | KeysUnavailable

NO_CREDENTIAL = "missing"
"""The reason of a `NotAuthenticated` for a request that has no credential at all."""
KEYS_RETRY_SECONDS = 5

_REALM = 'Bearer realm="millstream"'


async def refuse(scope: Scope, send: Send, error: Refused) -> None:
    """Answer 401 or 403, before any of the body is read; 503 if tokens cannot be checked."""
    if isinstance(error, KeysUnavailable):
        failure = Failure(str(error), "server_error", error.code)
        await answer(scope, send, 503, failure, {"retry-after": str(KEYS_RETRY_SECONDS)})
        return
    status = 401 if isinstance(error, NotAuthenticated) else 403
    failure = Failure(str(error), "invalid_request_error", error.code)
    await answer(scope, send, status, failure, challenge_headers(error))


def challenge_headers(error: NotAuthenticated | NotAllowed) -> dict[str, str]:
    """The `WWW-Authenticate` of this refusal; none for a tenant, which no scope would help."""
    if isinstance(error, NotAuthenticated):
        # RFC 6750, 3.1: who has sent nothing is told nothing of an error.
        wrong = "" if error.reason == NO_CREDENTIAL else ', error="invalid_token"'
        return {"www-authenticate": f"{_REALM}{wrong}"}
    if error.scope is None:
        return {}
    scope = f'error="insufficient_scope", scope="{error.scope}"'
    return {"www-authenticate": f"{_REALM}, {scope}"}
