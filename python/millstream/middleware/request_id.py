"""A name for every request."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from millstream.middleware.response_start import response_start
from millstream.middleware.state import state_of
from millstream.middleware.trace_parent import trace_id

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HEADER = b"x-request-id"
FLOW_HEADER = b"x-flow-id"
TRACE_HEADER = b"traceparent"

_READ = frozenset({HEADER, FLOW_HEADER, TRACE_HEADER})
_ACCEPTED = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class RequestIdMiddleware:
    """Puts ``request_id`` and ``flow_id`` into the request's state and onto the response.

    The client's own ``X-Request-Id`` is kept if it is short and plain, else one is made: it goes
    into logs, where a line end would be an injection. A flow is the whole piece of work that the
    request is part of: the client's ``X-Flow-Id`` if that is as plain, else the trace of a valid
    ``traceparent``, else the request alone. ``trace_id`` is in the state if there is such a trace.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id, flow_id = _name(scope)
        start, send = response_start(scope, send)
        start.add_fields(((HEADER, request_id), (FLOW_HEADER, flow_id)))
        await self.app(scope, receive, send)


def _name(scope: Scope) -> tuple[bytes, bytes]:
    state, given = state_of(scope), _given(scope)
    trace = trace_id(given.get(TRACE_HEADER, b""))
    if trace is not None:
        state["trace_id"] = trace
    request_id = given.get(HEADER) or secrets.token_hex(16).encode()
    flow_id = given.get(FLOW_HEADER) or (trace.encode() if trace else request_id)
    state["request_id"], state["flow_id"] = request_id.decode(), flow_id.decode()
    return request_id, flow_id


def _given(scope: Scope) -> dict[bytes, bytes]:
    """The first plain value of each field that is read here."""
    given: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _READ and name not in given and _ACCEPTED.fullmatch(value):
            given[name] = bytes(value)
    return given
