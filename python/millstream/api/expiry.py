"""Connections of tenants whose streams may not outlive the credential behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.api.errors import error_response
from millstream.api.tenant import tenant_of
from millstream.errors import NotAuthenticated
from millstream.middleware.challenge import challenge_headers
from millstream.middleware.state import state_of
from millstream.streams.expiry import Expiry, expired_frame
from millstream.streams.failures import CREDENTIAL_EXPIRED
from millstream.streams.stream import Stream

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import JSONResponse

    from millstream.api.services import Services
    from millstream.config import Settings
    from millstream.store.descriptor import DialectName
    from millstream.store.recording import Recording
    from millstream.streams.encoding import Framing


def expires_ns(request: Request, services: Services) -> int | None:
    """When this connection is to be cut, by the services' monotonic clock; None is never.

    The wall clock is looked at here and not again: a step of it cuts nobody.
    """
    principal = state_of(request.scope).get("principal")
    if principal is None or principal.expires_at is None:
        return None
    tenant = services.settings.tenants.get(tenant_of(request))
    if tenant is None or tenant.on_expiry != "cut":
        return None
    last_ns = int((principal.expires_at + _leeway_seconds(services.settings)) * 1e9)
    return services.clock() + max(0, last_ns - services.wall_clock())


def expiry_of(
    request: Request,
    services: Services,
    stream: Stream | Recording,
    *,
    dialect: DialectName,
    framing: Framing,
) -> Expiry | None:
    """How this reader of the stream is cut, if it is."""
    at_ns = expires_ns(request, services)
    if at_ns is None:
        return None
    frame = expired_frame(dialect, framing)
    if isinstance(stream, Stream):
        return Expiry(at_ns, frame, stream.reader_expired)
    return Expiry(at_ns, frame)


def expired_response() -> JSONResponse:
    """401 for an answer in one piece that is not there yet."""
    error = NotAuthenticated(CREDENTIAL_EXPIRED.message, reason="expired")
    return error_response(401, CREDENTIAL_EXPIRED, headers=challenge_headers(error))


def _leeway_seconds(settings: Settings) -> int:
    # For as long as a new request with this token would be let in.
    return settings.auth.jwt.leeway_seconds if settings.auth.jwt is not None else 0
