"""How a request ended, in one status and one word."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from millstream.middleware.state import state_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Scope

    from millstream.middleware.response_start import ResponseStart
    from millstream.middleware.state import RequestState

CLIENT_GONE_STATUS = 499
"""Status of a request whose client left before the response began; nginx's number for it."""
FAILED_STATUS = 500


class Ending(NamedTuple):
    """``outcome`` is that of the request's stream, if it has one.

    Else ``completed``, ``refused`` (4xx), ``failed`` (5xx, or the app raised) or ``client_gone``:
    there was no response, or the request's task was cancelled. A server that does not cancel and
    an app that does not listen leave a client's departure unseen.
    """

    status: int
    outcome: str


async def ended_by(
    serving: Awaitable[None],
    scope: Scope,
    start: ResponseStart,
    on_ended: Callable[[Ending], None],
) -> None:
    """Let the app serve a request, and tell how it ended: it returned, raised, or was cancelled."""
    failure: BaseException | None = None
    try:
        await serving
    except BaseException as error:
        failure = error
        raise
    finally:
        on_ended(_ending(state_of(scope), start.status, failure))


def _ending(state: RequestState, status: int | None, error: BaseException | None) -> Ending:
    if status is None:
        status = CLIENT_GONE_STATUS if error is None or departed(error) else FAILED_STATUS
    return Ending(status, state.get("outcome") or _word(status, error))


def _word(status: int, error: BaseException | None) -> str:
    if status == CLIENT_GONE_STATUS or (error is not None and departed(error)):
        return "client_gone"
    if error is not None or status >= FAILED_STATUS:
        return "failed"
    return "refused" if status >= 400 else "completed"


def departed(error: BaseException) -> bool:
    """Whether this is how an app learns that its client has left."""
    # By its name: the class is Starlette's, without which a middleware works too.
    return isinstance(error, asyncio.CancelledError) or type(error).__name__ == "ClientDisconnect"
