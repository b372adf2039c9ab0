"""What the middleware of a request knows of it, in ``scope["state"]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope

    from millstream.admission import Lease
    from millstream.identity.principal import Principal
    from millstream.middleware.request_life import RequestLife
    from millstream.middleware.response_start import ResponseStart


class RequestState(TypedDict, total=False):
    """Typed fields that each middleware adds for those inside of it."""

    request_id: str
    """Name of the request in every log."""
    flow_id: str
    """Name of the whole piece of work that this request is part of, across services."""
    trace_id: str
    """Trace of the W3C ``traceparent`` that came with the request, 32 hex digits."""
    principal: Principal
    """Who sent it."""
    tenant: str
    """Whose request it is."""
    scopes: frozenset[str]
    """What it may do: the credential's scopes, trimmed by its role."""
    quota_remaining: int | None
    """Tokens left in its tightest scope, beside its own lease once it has one; None is no limit."""
    lease: Lease
    """What it holds of the limits."""
    outcome: str
    """How its stream ended, once that is known."""
    response_start: ResponseStart
    """Who watches for the start of the response."""
    body_begun: Callable[[], None]
    """To be called by a body that goes to the server past every ``send``, with its first byte."""
    life: RequestLife
    """Who tells the hooks of it."""


def state_of(scope: Scope) -> RequestState:
    """The state of a connection; empty where no middleware has run."""
    return cast("RequestState", scope.setdefault("state", {}))
