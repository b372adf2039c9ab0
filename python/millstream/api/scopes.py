"""What a request must be allowed to do, named by each route."""

from __future__ import annotations

from typing import Any

from fastapi import Depends
from starlette.requests import Request

from millstream.errors import NotAllowed
from millstream.identity.scopes import allows
from millstream.middleware.state import state_of

OPEN_PATHS = frozenset(
    {"/docs", "/docs/oauth2-redirect", "/healthz", "/openapi.json", "/readyz", "/redoc"}
)
"""Routes that need no scope: the probes, which need no credential either, and the API's own
description, for whoever has one."""


class Requires:
    """Lets a request pass that has the scope, and every one that no middleware has looked at."""

    def __init__(self, scope: str) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> None:
        """Raises `NotAllowed`, which names the scope."""
        scopes = state_of(request.scope).get("scopes")
        if scopes is not None and not allows(scopes, self.scope):
            raise NotAllowed(
                f"The credential does not allow `{self.scope}`.",
                code="insufficient_scope",
                scope=self.scope,
            )


def requires(scope: str) -> Any:
    """The dependency of a route that needs this scope."""
    return Depends(Requires(scope))
