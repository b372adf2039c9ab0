"""Which framing the client accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator
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

# Commas and semicolons inside quotes separate nothing (RFC 9110, 5.6.4).
_MEMBER = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')
_PARAMETER = re.compile(r'(?:[^;"]|"(?:\\.|[^"\\])*"?)+')
_MEDIA_RANGE = re.compile(r"\*/\*|[!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+")
_QUALITY = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")


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
    if _weight(best, weights) > 0:
        return best
    # openai-python and openai-node ask for JSON even where they want a stream.
    if weights.get("application/json", 0.0) > 0 and EVENT_STREAM not in weights:
        return FRAMINGS[0]
    offered = ", ".join(framing.media_type for framing in FRAMINGS)
    raise BodyRefused(406, f"A stream can be had as {offered}.")


def _weight(framing: Framing, weights: dict[str, float]) -> float:
    """The word of the most specific range that covers this type (RFC 9110, 12.5.1)."""
    whole_type = framing.media_type.partition("/")[0] + "/*"
    for media_range in (framing.media_type, whole_type, "*/*"):
        if media_range in weights:
            return weights[media_range]
    return 0.0


def _weights(header: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for media_range, quality in _members(header.lower()):
        weights[media_range] = max(quality, weights.get(media_range, 0.0))
    return weights


def _members(header: str) -> Iterator[tuple[str, float]]:
    """What is well-formed of the list; the rest says nothing."""
    for member in _MEMBER.findall(header):
        media_range, *parameters = (part.strip() for part in _PARAMETER.findall(member))
        quality = _quality(parameters)
        if quality is not None and _MEDIA_RANGE.fullmatch(media_range):
            yield media_range, quality


def _quality(parameters: list[str]) -> float | None:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            value = value.strip()
            return float(value) if _QUALITY.fullmatch(value) else None
    return 1.0
