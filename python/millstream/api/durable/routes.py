"""``/v1/durable/{path}``: the Durable Streams protocol."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millstream.api.allowed import route
from millstream.api.durable import reading, writing
from millstream.api.durable.answers import SECURITY
from millstream.api.durable.call import answer
from millstream.api.durable.headers import REQUEST_HEADERS
from millstream.api.scopes import requires

router = APIRouter()

_PATH = "/v1/durable/{path:path}"
_READS = [requires("durable:read")]
_WRITES = [requires("durable:write")]
_BEGINS = [*_WRITES, route("durable")]
_METHODS = "GET, HEAD, PUT, POST, DELETE, OPTIONS"


@router.put(_PATH, dependencies=_BEGINS)
async def create_stream(request: Request) -> Response:
    """Create a stream, with content and closed if asked for; idempotent."""
    return await answer(request, writing.create)


@router.post(_PATH, dependencies=_BEGINS)
async def append_to_stream(request: Request) -> Response:
    """Append to a stream, close it, or both at once."""
    return await answer(request, writing.append)


@router.get(_PATH, dependencies=_READS)
async def read_stream(request: Request) -> Response:
    """Read from an offset: what is there, or live by long-polling or server-sent events."""
    return await answer(request, reading.read)


@router.head(_PATH, dependencies=_READS)
async def describe_stream(request: Request) -> Response:
    """The tail, the expiry and whether the stream is closed."""
    return await answer(request, writing.describe)


@router.delete(_PATH, dependencies=_WRITES)
async def delete_stream(request: Request) -> Response:
    """Delete a stream and its content."""
    return await answer(request, writing.delete)


@router.options(_PATH)
async def preflight() -> Response:
    """What may be asked from another origin; which origins, ``server.cors_origins`` says."""
    headers = {
        "allow": _METHODS,
        "access-control-allow-methods": _METHODS,
        "access-control-allow-headers": ", ".join(REQUEST_HEADERS),
        **SECURITY,
    }
    return Response(status_code=204, headers=headers)
