"""Positions in a stream as clients see them: opaque tokens that sort as the positions do.

``<position, 16 digits>_<stream id>``. The id tells a stream from an earlier one at the same path,
whose offsets would else read the wrong content.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BEGINNING = "-1"
NOW = "now"
_TOKEN = re.compile(r"([0-9]{16})_([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Offset:
    """Where to read: ``position`` None is the tail; ``stream_id`` None fits every stream."""

    position: int | None
    stream_id: str | None = None


def format_offset(position: int, stream_id: str) -> str:
    """The token of a position; ``stream_id`` is 8 hexadecimal digits."""
    return f"{position:016d}_{stream_id}"


def parse_offset(token: str) -> Offset | None:
    """The place that a token names; None for what the server never gave out."""
    if token == BEGINNING:
        return Offset(0)
    if token == NOW:
        return Offset(None)
    found = _TOKEN.fullmatch(token)
    return None if found is None else Offset(int(found[1]), found[2])
