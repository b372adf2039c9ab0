"""Whose request it is."""

from __future__ import annotations

from starlette.requests import Request

DEFAULT_TENANT = "default"


def tenant_of(request: Request) -> str:
    """The tenant that a middleware found for this request, in ``scope["state"]``."""
    tenant = request.scope.get("state", {}).get("tenant", DEFAULT_TENANT)
    return str(tenant)
