"""The answer in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from millstream.api.dialect import completion_object
from millstream.api.errors import RouteRefused, failed_stream_response
from millstream.middleware.state import state_of
from millstream.streams.branch import WHOLE
from millstream.streams.failures import FAILURES
from millstream.streams.following import until_closed
from millstream.streams.response import DETACHED, client_departure
from millstream.types import Failure, Outcome

if TYPE_CHECKING:
    from starlette.requests import Request

    from millstream._core import Log, Notifier
    from millstream.api.opening import Opened
    from millstream.api.services import Services
    from millstream.store.recording import Recording
    from millstream.streams.stream import Stream

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
    errors. Raises `RouteRefused` (410) where the text of an earlier stream is no longer whole.
    """
    stream = opened.stream
    stream.attach()
    try:
        await _ended_or_gone(request, stream.log, services.deliveries.notifier)
        if stream.outcome in answered:
            return JSONResponse(_kept(content, stream), headers=opened.headers)
        return _failed(stream, opened.headers)
    finally:
        # The last reader of a plain stream ends it by this.
        stream.detach()
        state_of(request.scope)["outcome"] = stream.outcome or DETACHED


async def _ended_or_gone(request: Request, log: Log, notifier: Notifier) -> None:
    gone = asyncio.ensure_future(client_departure(request.receive))
    ended = asyncio.ensure_future(until_closed(log, notifier))
    try:
        await asyncio.wait((gone, ended), return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        ended.cancel()


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
