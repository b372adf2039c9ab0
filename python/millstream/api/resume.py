"""``GET /v1/streams/{id}``: a stream from where its client left it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millstream.api.accept import framing_for
from millstream.api.cursor import cursor_of
from millstream.api.opening import retained_headers
from millstream.api.resumed import Resumption, resumed_answer
from millstream.api.scopes import requires
from millstream.api.services import services
from millstream.api.tenant import tenant_of
from millstream.errors import InvalidParameter

if TYPE_CHECKING:
    from millstream.streams.encoding import Asked

router = APIRouter()

_READS = [requires("streams:read")]


@router.head("/v1/streams/{stream_id}", include_in_schema=False, dependencies=_READS)
@router.get("/v1/streams/{stream_id}", dependencies=_READS)
async def read_stream(request: Request, stream_id: str) -> Response:
    """Replay what is kept after the cursor, then go on live; any number may read one stream."""
    asked = Resumption(
        framing_for(request),
        cursor_of(request),
        _dialect(request),
        snapshot=_choice(request, "on_gap", ("snapshot",)) is not None,
        head=request.method == "HEAD",
    )
    headers = retained_headers(stream_id)
    return await resumed_answer(
        request, services(request), stream_id, tenant_of(request), asked, headers=headers
    )


def _dialect(request: Request) -> Asked | None:
    dialect: Literal["native", "openai"] | None
    match _choice(request, "dialect", ("native", "openai")):
        case "native":
            dialect = "native"
        case "openai":
            dialect = "openai"
        case _:
            dialect = None
    return dialect


def _choice(request: Request, name: str, choices: tuple[str, ...]) -> str | None:
    """The value of this query parameter; raises `InvalidParameter` for one that is not offered."""
    value = request.query_params.get(name)
    if value is not None and value not in choices:
        offered = " or ".join(f"'{choice}'" for choice in choices)
        raise InvalidParameter(f"{name}: must be {offered}.", param=name)
    return value
