"""What of a request may stand in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from millstream.telemetry.logging import SHOWN_OF_STREAM

if TYPE_CHECKING:
    from starlette.types import Scope

    from millstream.middleware.state import RequestState

LONGEST = 512
"""Characters of one value; a longer one is cut."""
LONGEST_WORD = 16
"""Characters of a part of a path that no route has taken; a longer one may be the name of a stream.
"""
SECRET_PARAMETERS = frozenset({"stream_id", "response_id"})
"""Parts of a path that are the name of a stream: whoever knows it whole can read the stream."""


def shown(text: str) -> str:
    """A text that cannot end a line, move a cursor or turn the direction of writing."""
    text = text[:LONGEST]
    return text if text.isascii() and text.isprintable() else quote(text, safe=" /:@,;=+!$&'()*")


def shown_path(scope: Scope) -> str:
    """The path as it was sent, without the query and with the names of streams cut short.

    Where no route says which part of the path is such a name, every long one is cut.
    """
    path: str = scope["path"]
    if "route" not in scope:
        return shown("/".join(map(_word, path.split("/"))))
    parameters = scope.get("path_params")
    if parameters:
        for name in SECRET_PARAMETERS & parameters.keys():
            secret = str(parameters[name])
            path = path.replace(secret, secret[:SHOWN_OF_STREAM])
    return shown(path)


def _word(part: str) -> str:
    return part if len(part) <= LONGEST_WORD else part[:SHOWN_OF_STREAM]


def route_of(scope: Scope) -> str | None:
    """The template of the route that answers, for apps that know routes; never a raw path."""
    return getattr(scope.get("route"), "path", None)


def who(state: RequestState) -> dict[str, str | None]:
    """Whose request it is, under the names that every log has for it."""
    principal, tenant = state.get("principal"), state.get("tenant")
    return {
        "tenant": None if tenant is None else shown(tenant),
        "subject": None if principal is None else shown(principal.subject),
        "request_id": state.get("request_id"),
        "flow_id": state.get("flow_id"),
    }
