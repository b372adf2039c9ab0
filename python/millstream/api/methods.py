"""Which methods a path has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi.routing import iter_route_contexts
from starlette.routing import Match

if TYPE_CHECKING:
    from starlette.requests import Request


def allowed_methods(request: Request) -> str:
    """The ``Allow`` of a 405: of all routes at the path, where a router names the first one's."""
    found: set[str] = set()
    for route in iter_route_contexts(request.app.routes):
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found |= route.methods or set()
    return ", ".join(sorted(found))
