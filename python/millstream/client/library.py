"""The HTTP library, which only the two clients need."""

from __future__ import annotations

from typing import Any

from millstream.client.follower import Attempt
from millstream.client.request import Request

try:
    import httpx
except ImportError as error:
    raise ImportError("millstream.client needs httpx: pip install 'millstream[client]'") from error

__all__ = ["BROKEN", "arguments", "httpx", "timeout_of"]

BROKEN = (httpx.TransportError, httpx.DecodingError)
"""What httpx raises when a connection is not made, is cut or brings nonsense."""


def arguments(request: Request, base_url: str, api_key: str | None) -> dict[str, Any]:
    """A request in httpx's terms."""
    authorization = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    return {
        "method": request.method,
        "url": base_url + request.path,
        "headers": {**authorization, **request.headers},
        "params": dict(request.params),
        "content": request.body,
    }


def timeout_of(attempt: Attempt, idle_seconds: float | None) -> httpx.Timeout:
    """The silence that counts as a cut: ``idle_seconds``, or what is left of the deadline."""
    bounds = [bound for bound in (idle_seconds, attempt.timeout_seconds) if bound is not None]
    return httpx.Timeout(min(bounds, default=None))
