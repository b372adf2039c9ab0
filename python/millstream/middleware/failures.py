"""What an app raises."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from millstream.errors import MillstreamError
from millstream.middleware.answers import answer
from millstream.middleware.ending import departed
from millstream.middleware.error_answer import ErrorAnswer, error_answer
from millstream.middleware.response_start import response_start
from millstream.middleware.state import state_of
from millstream.telemetry.logging import get_logger
from millstream.types import Failure

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_log = get_logger(__name__)


class FailureMiddleware:
    """Answers for what the app raises before its response has begun.

    A `MillstreamError` has its own status and words; anything else is logged, and is a 500 that
    names the place in the log. A client that has left gets no answer. Innermost, so that such an
    answer has its request's name too, is readable for pages of other origins and stands in the
    access log: frameworks answer outside of all middleware. What is raised later is passed on, and
    the server cuts the response.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, send = response_start(scope, send)
        try:
            await self.app(scope, receive, send)
        except Exception as error:
            if start.status is not None:
                raise
            if departed(error):
                return
            await answer(scope, send, _told(error, state_of(scope).get("request_id")))


def _told(error: Exception, request_id: str | None) -> ErrorAnswer:
    if isinstance(error, MillstreamError):
        return error_answer(error)
    return ErrorAnswer(500, unexpected(error, request_id=request_id))


def unexpected(error: Exception, *, request_id: str | None = None) -> Failure:
    """What the client is told of a failure that nobody foresaw: where to find it in the log."""
    reference = secrets.token_hex(4)
    _log.error("unexpected_failure", error=error, reference=reference, request_id=request_id)
    return Failure(f"Internal error, reference {reference}.", "server_error", "internal_error")
