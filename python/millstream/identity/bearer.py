"""The credential of a request: exactly one `Authorization: Bearer ...` (RFC 6750)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from millstream.errors import NotAuthenticated

Headers = Iterable[tuple[bytes, bytes]]

MAX_BYTES = 16_384
"""Longest header value that is looked at; a token of 4 KiB of claims has 6 KiB."""
NO_CREDENTIAL = "missing"
"""The reason of a `NotAuthenticated` for a request that has no credential at all."""

_BEARER = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_NONE = "A credential is needed: send `Authorization: Bearer` with an API key or an access token."
_WRONG = "The `Authorization` header is not one credential of the scheme `Bearer`."


def bearer_of(headers: Headers) -> str:
    """The credential among these headers, whatever bytes they hold.

    Raises `NotAuthenticated`, with the reason `NO_CREDENTIAL` where there is no header at all.
    """
    values = [value for name, value in headers if name == b"authorization"]
    if not values:
        raise NotAuthenticated(_NONE, reason=NO_CREDENTIAL)
    if len(values) > 1:
        # Whoever checks the first and whoever uses the last must not differ.
        raise NotAuthenticated(_WRONG, reason="several")
    if len(values[0]) > MAX_BYTES:
        raise NotAuthenticated(_WRONG, reason="too_long")
    found = _BEARER.fullmatch(values[0])
    if found is None:
        raise NotAuthenticated(_WRONG, reason="not_bearer")
    return found[1].decode("ascii")
