"""Which framing the client accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from millstream.api.errors import BodyRefused
from millstream.streams.formats import EVENT_STREAM, JSON_LINES, NDJSON


@dataclass(frozen=True, slots=True)
class Framing:
    """A media type and the encoder's name for its framing."""

    media_type: str
    framing: Literal["sse", "ndjson"]


FRAMINGS = (
    Framing(EVENT_STREAM, "sse"),
    Framing(NDJSON, "ndjson"),
    Framing(JSON_LINES, "ndjson"),
)
# openai-python and openai-node ask for JSON even where they want a stream.
_MEANS_ANY = frozenset({"*/*", "text/*", "application/*", "application/json"})


def framing_for(request: Request) -> Framing:
    """The offered framing that the client likes best, event streams on equal terms.

    Raises `BodyRefused` (406) where it accepts none.
    """
    # Several fields of one name are one list (RFC 9110, 5.3).
    header = ",".join(request.headers.getlist("accept")).strip()
    if not header:
        return FRAMINGS[0]
    weights = _weights(header)
    best = max(FRAMINGS, key=lambda framing: _weight(framing, weights))
    if _weight(best, weights) <= 0:
        offered = ", ".join(framing.media_type for framing in FRAMINGS)
        raise BodyRefused(406, f"A stream can be had as {offered}.")
    return best


def _weight(framing: Framing, weights: dict[str, float]) -> float:
    exact = weights.get(framing.media_type)
    if exact is not None:
        return exact
    if framing.media_type != EVENT_STREAM and "application/json" in weights:
        weights = {key: value for key, value in weights.items() if key != "application/json"}
    return max((weights[key] for key in _MEANS_ANY & weights.keys()), default=0.0)


def _weights(header: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for item in header.split(","):
        media_type, *parameters = (part.strip().lower() for part in item.split(";"))
        weights[media_type] = _quality(parameters)
    return weights


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0
