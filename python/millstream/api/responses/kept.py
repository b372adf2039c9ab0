"""``GET /v1/responses/{id}``, ``POST /v1/responses/{id}/cancel``, ``DELETE /v1/responses/{id}``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from millstream.api.accept import framing_for
from millstream.api.errors import RouteRefused
from millstream.api.expiry import expiry_of
from millstream.api.opening import PATIENCE_SECONDS, retained_headers
from millstream.api.opt_ins import wanted
from millstream.api.responses.ids import stream_id_of
from millstream.api.responses.objects import Recorded, response_object
from millstream.api.responses.parameters import check_includes
from millstream.api.scopes import requires
from millstream.api.services import Services, services
from millstream.api.tenant import tenant_of
from millstream.errors import InvalidParameter
from millstream.streams.following import until_closed
from millstream.streams.reading import Ready, reader_for
from millstream.streams.response import StreamResponse

if TYPE_CHECKING:
    from millstream.store.recording import Recording
    from millstream.streams.stream import Stream

router = APIRouter()

_ENDS = [requires("streams:cancel")]

_LARGEST = 2**63
_WORDS = {"true": True, "1": True, "false": False, "0": False}


@router.get("/v1/responses/{response_id}", dependencies=[requires("streams:read")])
async def retrieve_response(request: Request, response_id: str) -> Response:
    """What the response has come to, or with ``?stream=true`` its events from the start.

    ``starting_after`` is the number of the last event that the client has. Metadata come as they
    did when the response was made, unless ``X-Stream-Metadata`` says otherwise.
    """
    parts, query = services(request), request.query_params
    check_includes([*query.getlist("include"), *query.getlist("include[]")])
    starting_after = _starting_after(query.get("starting_after"))
    if _word("stream", query.get("stream")):
        found = await _find(request, parts, response_id)
        return _events(request, parts, found, starting_after)
    if starting_after is not None:
        raise InvalidParameter(
            "starting_after is only allowed with stream=true.", param="starting_after"
        )
    return _object(await _find(request, parts, response_id))


@router.post("/v1/responses/{response_id}/cancel", dependencies=_ENDS)
async def cancel_response(request: Request, response_id: str) -> Response:
    """Cancel a response that is under way; one that has ended stays as it is. Idempotent."""
    parts = services(request)
    found = await _find(request, parts, response_id)
    await parts.directory.cancel(found.id, tenant_of(request))
    await _told(found, parts)
    return _object(found)


@router.delete("/v1/responses/{response_id}", dependencies=_ENDS)
async def delete_response(request: Request, response_id: str) -> Response:
    """Forget a response; one that is under way is cancelled."""
    parts = services(request)
    found = await _find(request, parts, response_id)
    tenant = tenant_of(request)
    await parts.directory.cancel(found.id, tenant)
    # What is written once more after it is deleted would be there again.
    await _told(found, parts)
    await parts.directory.forget(found.id, tenant)
    return JSONResponse({"id": response_id, "object": "response", "deleted": True})


async def _told(found: Stream | Recording, parts: Services) -> None:
    """Wait for the word of the worker that generates it, which may be another one."""
    await until_closed(found.log, parts.deliveries.notifier, seconds=PATIENCE_SECONDS)


async def _find(request: Request, parts: Services, response_id: str) -> Stream | Recording:
    stream_id = stream_id_of(response_id)
    found = stream_id and await parts.directory.find(stream_id, tenant_of(request))
    # The streams of other routes are no responses.
    if not found or found.descriptor.response is None:
        raise RouteRefused(
            404, "response_not_found", f"Response with id '{response_id[:200]}' not found."
        )
    return found


def _object(found: Recorded) -> JSONResponse:
    try:
        return JSONResponse(response_object(found))
    except ValueError:
        raise _trimmed() from None


def _events(
    request: Request, parts: Services, found: Stream | Recording, starting_after: int | None
) -> Response:
    framing = framing_for(request)
    ready = reader_for(
        found,
        None,
        framing=framing.framing,
        metadata=wanted(request, "metadata", None),
        starting_after=starting_after,
    )
    if not isinstance(ready, Ready):
        raise _trimmed()
    return StreamResponse(
        found,
        ready.reader,
        deliveries=parts.deliveries,
        media_type=framing.media_type,
        headers=retained_headers(found.id),
        policy=found.descriptor,
        typed_end=ready.typed_end,
        preface=ready.preface,
        expiry=expiry_of(request, parts, found, dialect=ready.dialect, framing=framing.framing),
        clock=parts.clock,
    )


def _trimmed() -> RouteRefused:
    return RouteRefused(
        410, "response_trimmed", "The beginning of this response is no longer kept."
    )


def _starting_after(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < _LARGEST):
        raise InvalidParameter(
            "starting_after: must be the sequence_number of an event.", param="starting_after"
        )
    return int(text)


def _word(name: str, text: str | None) -> bool:
    value = _WORDS.get((text or "false").lower())
    if value is None:
        raise InvalidParameter(f"{name}: must be true or false.", param=name)
    return value
