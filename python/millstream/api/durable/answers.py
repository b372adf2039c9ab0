"""What became of a request, as an HTTP response."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from starlette.responses import Response

from millstream.api.durable import headers as field
from millstream.api.errors import RouteRefused, error_response
from millstream.durable import DurableStream, Reason, Refusal

SECURITY: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    # A page elsewhere reads through CORS, or not at all.
    "cross-origin-resource-policy": "same-origin",
    # Content is a tenant's: opened in a browser, it must not run as a page of this server.
    "content-security-policy": "sandbox",
}
"""On every answer, errors included."""

_STATUSES: Mapping[Reason, int] = {
    Reason.CLOSED: 409,
    Reason.CONFIGURATION: 409,
    Reason.CONTENT_TYPE: 409,
    Reason.NO_CONTENT_TYPE: 400,
    Reason.EMPTY: 400,
    Reason.NOT_JSON: 400,
    Reason.SEQUENCE: 409,
    Reason.PRODUCER_EPOCH: 403,
    Reason.PRODUCER_START: 400,
    Reason.PRODUCER_GAP: 409,
    # Never fits, so that no client tries again; what other streams hold may become free.
    Reason.STREAM_FULL: 413,
    Reason.STORE_FULL: 507,
    Reason.TOO_MANY_STREAMS: 507,
}


def denied(error: RouteRefused, more: Mapping[str, str] = MappingProxyType({})) -> Response:
    """An error object, with these header fields."""
    return error_response(error.status, error.failure, headers=more)


def refused(refusal: Refusal, stream: DurableStream | None = None) -> Response:
    """Why nothing was done, with what the writer needs to go on."""
    more: dict[str, str] = {}
    if refusal.reason is Reason.CLOSED and stream is not None:
        more |= position(stream)
    for name, value in (
        (field.PRODUCER_EPOCH, refusal.epoch),
        (field.EXPECTED_SEQUENCE, refusal.expected),
        (field.RECEIVED_SEQUENCE, refusal.received),
    ):
        if value is not None:
            more[name] = str(value)
    error = RouteRefused(_STATUSES[refusal.reason], str(refusal.reason), refusal.message)
    return denied(error, more)


def position(stream: DurableStream) -> dict[str, str]:
    """The tail, and whether it is the end."""
    found = {field.NEXT_OFFSET: stream.offset()}
    if stream.closed:
        found[field.CLOSED] = "true"
    return found


def no_stream() -> RouteRefused:
    """There is no such stream, or no more."""
    return RouteRefused(404, "stream_not_found", "There is no stream at this path.")
