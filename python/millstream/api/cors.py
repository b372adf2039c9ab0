"""Which pages of other origins may call the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.middleware.cors import CORSMiddleware

from millstream.api.durable import EXPOSED_HEADERS

if TYPE_CHECKING:
    from fastapi import FastAPI

EXPOSED = (
    "Idempotent-Replayed",
    "Link",
    "Retry-After",
    "Retry-After-Ms",
    "X-Request-Id",
    "X-Stream-Id",
)
"""Header fields that scripts may read, beside the few that they always may."""

_PREFLIGHT_SECONDS = 7200  # browsers keep no answer for longer


def install(app: FastAPI, origins: Sequence[str]) -> None:
    """Let pages of these origins call every route; none leaves the app as it is.

    Cookies are not sent for: nothing here reads them.
    """
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST", "PUT", "DELETE"),
            allow_headers=("*",),
            expose_headers=(*EXPOSED, *EXPOSED_HEADERS),
            max_age=_PREFLIGHT_SECONDS,
        )
