"""Connections of tenants whose streams may not outlive the credential behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from millstream.api.tenant import tenant_of
from millstream.errors import NotAuthenticated
from millstream.middleware.state import state_of
from millstream.streams.expiry import Expiry, expired_frame
from millstream.streams.failures import CREDENTIAL_EXPIRED
from millstream.streams.stream import Stream

if TYPE_CHECKING:
    from starlette.requests import Request

    from millstream.api.services import Services
    from millstream.config import Settings
    from millstream.identity.principal import Principal
    from millstream.store.descriptor import DialectName
    from millstream.store.recording import Recording
    from millstream.streams.encoding import Framing

T = TypeVar("T")


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
    leeway_seconds = _leeway_seconds(principal, services.settings)
    last_ns = int((principal.expires_at + leeway_seconds) * 1e9)
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


class CredentialExpired(NotAuthenticated):
    """It has expired before there was an answer."""

    code = CREDENTIAL_EXPIRED.code

    def __init__(self) -> None:
        super().__init__(CREDENTIAL_EXPIRED.message, reason="expired")


async def before_expiry(request: Request, services: Services, work: Awaitable[T]) -> T:
    """What ``work`` comes to; given up where this connection is to be cut meanwhile.

    Raises `CredentialExpired` then.
    """
    at_ns = expires_ns(request, services)
    if at_ns is None:
        return await work
    patience = asyncio.timeout(None)
    services.deliveries.expire(patience, at_ns, partial(_end_patience, patience))
    try:
        async with patience:
            return await work
    except TimeoutError:
        if not patience.expired():
            raise
        raise CredentialExpired from None
    finally:
        services.deliveries.forget(patience)


def _end_patience(patience: asyncio.Timeout) -> None:
    # Asked with every sweep until it has got through.
    if patience.when() is None:
        patience.reschedule(0)


def _leeway_seconds(principal: Principal, settings: Settings) -> int:
    # For as long as a new request with this credential would be let in.
    jwt = settings.auth.jwt
    return jwt.leeway_seconds if jwt is not None and principal.kind == "jwt" else 0
