"""Chains of middleware and the apps inside of them, for `bench_middleware`."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import slowapi
import slowapi.util
from slowapi.middleware import SlowAPIASGIMiddleware, SlowAPIMiddleware
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream.admission import Lease, Limits, MemoryLimiter, RequestRate
from millstream.admission.headers import ratelimit_headers
from millstream.middleware import (
    AccessLogMiddleware,
    AuditMiddleware,
    Ended,
    HookMiddleware,
    LimitMiddleware,
    RequestHooks,
    RequestIdMiddleware,
    client_address_scopes,
)
from millstream.middleware.limits import ONE_REQUEST
from millstream.telemetry.audit import LogAudit, NoAudit
from millstream.telemetry.logging import JsonFormatter, get_logger

Wrap = Callable[[ASGIApp], ASGIApp]

NEVER_REACHED = Limits(requests=RequestRate(1_000_000, 1_000_000))
SCOPES = client_address_scopes(NEVER_REACHED)
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")],
}
FRAME = b'data: {"choices":[{"delta":{"content":" token"}}]}\n\n'


def log_to_nowhere() -> None:
    """Let access log and audit trail format their lines and write them to /dev/null."""
    handler = logging.StreamHandler(open("/dev/null", "w"))  # noqa: SIM115 - for good
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("millstream")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)


# --- apps ---------------------------------------------------------------------------------------


async def answers(_scope: Scope, _receive: Receive, send: Send) -> None:
    """The least that an app can do."""
    await send(START)
    await send({"type": "http.response.body", "body": b"ok"})


def frames(count: int) -> ASGIApp:
    """An app that sends so many frames, one a message."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        for _ in range(count):
            await send({"type": "http.response.body", "body": FRAME, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


def starlette_app(count: int = 0) -> Starlette:
    """One route, which streams so many frames, or answers at once."""

    async def stream(_request: Request) -> Response:
        async def body() -> Any:
            for _ in range(count):
                yield FRAME

        if not count:
            return PlainTextResponse("ok")
        return StreamingResponse(body(), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", stream, methods=["POST"])])


# --- ours ---------------------------------------------------------------------------------------


class Hook(RequestHooks):
    """Hears and does nothing."""

    async def on_outcome(self, event: Ended) -> None:
        """Nothing."""
        return


def limit(app: ASGIApp) -> ASGIApp:
    """A request a lease."""
    return LimitMiddleware(app, MemoryLimiter(), SCOPES)


def audit(app: ASGIApp) -> ASGIApp:
    """A record a request."""
    return AuditMiddleware(app, LogAudit())


def hooks(app: ASGIApp) -> ASGIApp:
    """Three calls a request."""
    return HookMiddleware(app, [Hook()])


def chain(app: ASGIApp) -> ASGIApp:
    """Request id, limits, audit, access log."""
    return RequestIdMiddleware(limit(audit(AccessLogMiddleware(app))))


def silent_chain(app: ASGIApp) -> ASGIApp:
    """The same, but what is logged goes nowhere: the lines are most of the cost."""
    silent = AuditMiddleware(AccessLogMiddleware(app, log=get_logger("silent")), NoAudit())
    return RequestIdMiddleware(limit(silent))


def hooked_chain(app: ASGIApp) -> ASGIApp:
    """The same with a hook."""
    return RequestIdMiddleware(hooks(limit(audit(AccessLogMiddleware(app)))))


# --- the same on BaseHTTPMiddleware ---------------------------------------------------------------


class BaseRequestId(BaseHTTPMiddleware):
    """As users write it."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """One request."""
        request_id = request.headers.get("x-request-id") or secrets.token_hex(16)
        flow_id = request.headers.get("x-flow-id") or request_id
        request.state.request_id, request.state.flow_id = request_id, flow_id
        response = await call_next(request)
        response.headers["x-request-id"] = request_id
        response.headers["x-flow-id"] = flow_id
        return response


class BaseLimit(BaseHTTPMiddleware):
    """The same limiter."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        self._limiter = MemoryLimiter()

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """One request."""
        lease = await self._limiter.reserve(SCOPES(request.scope), ONE_REQUEST)
        if not isinstance(lease, Lease):
            return JSONResponse({}, status_code=429)
        try:
            response = await call_next(request)
            response.headers.update(ratelimit_headers(lease.snapshot))
            return response
        finally:
            lease.settle(lease.tokens)


class BaseLine(BaseHTTPMiddleware):
    """A line of the access log, and of the audit trail."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        super().__init__(app)
        self._log = get_logger(f"millstream.{name}")

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """One request."""
        came = monotonic_ns()
        response = await call_next(request)
        self._log.info(
            "request",
            method=request.method,
            path=request.url.path,
            status=response.status_code,
            duration_ms=(monotonic_ns() - came) / 1e6,
            request_id=request.state.request_id,
            flow_id=request.state.flow_id,
        )
        return response


def base_chain(app: ASGIApp) -> ASGIApp:
    """Request id, limits, audit, access log."""
    return BaseRequestId(BaseLimit(BaseLine(BaseLine(app, "access"), "audit")))


def slowapi_app(middleware: Any, count: int = 0) -> Starlette:
    """slowapi in memory, with a limit that is never reached, and its header fields."""
    app = starlette_app(count)
    app.state.limiter = slowapi.Limiter(
        key_func=slowapi.util.get_remote_address,
        default_limits=["1000000/second"],
        headers_enabled=True,
    )
    app.add_middleware(middleware)
    return app


SLOWAPI = {"BaseHTTPMiddleware": SlowAPIMiddleware, "ASGI": SlowAPIASGIMiddleware}
