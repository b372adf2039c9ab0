"""Which pages of other origins may call the API."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from millstream.api.durable import EXPOSED_HEADERS

EXPOSED = (
    "Idempotent-Replayed",
    "Link",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "Retry-After-Ms",
    "WWW-Authenticate",
    "X-Flow-Id",
    "X-Max-Tokens",
    "X-RateLimit-Limit-Requests",
    "X-RateLimit-Limit-Tokens",
    "X-RateLimit-Remaining-Requests",
    "X-RateLimit-Remaining-Tokens",
    "X-RateLimit-Reset-Requests",
    "X-RateLimit-Reset-Tokens",
    "X-Request-Id",
    "X-Should-Retry",
    "X-Stream-Id",
    "X-Tokens-Charged",
)
"""Header fields that scripts may read, beside the few that they always may."""

_PREFLIGHT_SECONDS = 7200  # browsers keep no answer for longer


def middleware(origins: Sequence[str]) -> list[Middleware]:
    """What lets pages of these origins call every route; nothing if there are none.

    Cookies are not sent for: nothing here reads them.
    """
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST", "PUT", "DELETE"),
            allow_headers=("*",),
            expose_headers=(*EXPOSED, *EXPOSED_HEADERS),
            max_age=_PREFLIGHT_SECONDS,
        )
    ]
