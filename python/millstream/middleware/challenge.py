"""What a client whose credential does not do has to bring, in RFC 6750's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.errors import NotAllowed
from millstream.identity.bearer import NO_CREDENTIAL

if TYPE_CHECKING:
    from millstream.errors import NotAuthenticated

_REALM = 'Bearer realm="millstream"'
INVALID_TOKEN = f'{_REALM}, error="invalid_token"'


def challenge(error: NotAuthenticated | NotAllowed) -> str | None:
    """The `WWW-Authenticate` of this refusal; None for a tenant, which no scope would help."""
    if isinstance(error, NotAllowed):
        scope = error.scope
        return scope and f'{_REALM}, error="insufficient_scope", scope="{scope}"'
    # RFC 6750, 3.1: who has sent nothing is told nothing of an error.
    return _REALM if error.reason == NO_CREDENTIAL else INVALID_TOKEN
