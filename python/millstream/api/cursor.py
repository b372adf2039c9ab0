"""Where a reader left a stream: ``Last-Event-ID``, or ``?after=`` for who cannot set headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from millstream.api.errors import RouteRefused
from millstream.event_id import EventId

if TYPE_CHECKING:
    from starlette.requests import Request

HEADER = "Last-Event-ID"
PARAMETER = "after"


def cursor_of(request: Request) -> EventId | None:
    """The cursor of this request, None for the beginning; the header goes before the parameter.

    An `EventSource` reconnects to the URL that it was given, with a newer cursor in its header.
    Raises `RouteRefused` (400) for a malformed one.
    """
    return header_cursor(request) or _cursor(PARAMETER, request.query_params.getlist(PARAMETER))


def header_cursor(request: Request) -> EventId | None:
    """The cursor in the header, None without one; raises `RouteRefused` (400) likewise."""
    values = request.headers.getlist(HEADER)
    return _cursor(HEADER, values) if any(values) else None


def _cursor(name: str, values: list[str]) -> EventId | None:
    if not values:
        return None
    if len(values) > 1:
        raise malformed(f"sent {len(values)} times, send one", param=name)
    try:
        return EventId.parse(values[0], bare=name == PARAMETER)
    except ValueError as error:
        raise malformed(str(error), param=name) from None


def malformed(
    problem: str, *, param: str = PARAMETER, beside: Mapping[str, object] | None = None
) -> RouteRefused:
    """The refusal of a cursor that no event of the stream has."""
    message = f"{param}: {problem}."
    return RouteRefused(400, "invalid_cursor", message, param=param, beside=beside)
