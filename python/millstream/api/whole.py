"""The answer in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from millstream.api.dialect import completion_object
from millstream.api.errors import RouteRefused, failed_stream_response
from millstream.api.expiry import CredentialExpired, expires_ns
from millstream.api.ratelimit import final_headers
from millstream.middleware.state import state_of
from millstream.streams.branch import WHOLE
from millstream.streams.failures import FAILURES
from millstream.streams.following import until_closed
from millstream.streams.response import DETACHED, client_departure
from millstream.streams.stream import Stream
from millstream.types import Failure, Outcome

if TYPE_CHECKING:
    from starlette.requests import Request

    from millstream._core import Log
    from millstream.api.opening import Opened
    from millstream.api.services import Services
    from millstream.store.recording import Recording

_GONE = Failure("The client has left.", "invalid_request_error", "client_gone")


async def whole_answer(
    request: Request,
    opened: Opened,
    services: Services,
    *,
    content: Callable[[Stream | Recording], dict[str, Any]] = completion_object,
    answered: Container[Outcome | None] = WHOLE,
) -> Response:
    """Wait for the end of the stream, or for the client to leave, and answer.

    ``content`` makes the answer of a stream with one of the outcomes ``answered``; the others are
    errors. The figures in its head are the final ones. Raises `CredentialExpired` where that is
    before the end, if the tenant's connections are then cut, and `RouteRefused` (410) where the
    text of an earlier stream is no longer whole.
    """
    stream = opened.stream
    stream.attach()
    try:
        expired = await _ended_gone_or_expired(request, stream.log, services)
        if stream.outcome is None and expired:
            raise _expired(stream)
        headers = {**opened.headers, **final_headers(opened)}
        if stream.outcome in answered:
            return JSONResponse(_kept(content, stream), headers=headers)
        return _failed(stream, headers)
    finally:
        # The last reader of a plain stream ends it by this.
        stream.detach()
        state_of(request.scope)["outcome"] = stream.outcome or DETACHED


async def _ended_gone_or_expired(request: Request, log: Log, services: Services) -> bool:
    """Whether the credential of the request has expired meanwhile."""
    deliveries = services.deliveries
    gone = asyncio.ensure_future(client_departure(request.receive))
    ended = asyncio.ensure_future(until_closed(log, deliveries.notifier))
    expired = asyncio.get_running_loop().create_future()
    at_ns = expires_ns(request, services)
    if at_ns is not None:
        deliveries.expire(expired, at_ns, partial(_resolve, expired))
    try:
        await asyncio.wait((gone, ended, expired), return_when=asyncio.FIRST_COMPLETED)
        return expired.done()
    finally:
        deliveries.forget(expired)
        gone.cancel()
        ended.cancel()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _expired(stream: Stream | Recording) -> CredentialExpired:
    if isinstance(stream, Stream):
        stream.reader_expired()
    return CredentialExpired()


def _kept(
    content: Callable[[Stream | Recording], dict[str, Any]], stream: Stream | Recording
) -> dict[str, Any]:
    try:
        return content(stream)
    except ValueError:
        raise RouteRefused(
            410, "stream_trimmed", "The beginning of this answer is no longer kept."
        ) from None


def _failed(stream: Stream | Recording, headers: dict[str, str]) -> Response:
    outcome = stream.outcome or Outcome.CLIENT_GONE
    text = stream.log.error
    failure = Failure.from_json(text) if text else FAILURES.get(outcome, _GONE)
    return failed_stream_response(outcome, failure, headers=headers)
