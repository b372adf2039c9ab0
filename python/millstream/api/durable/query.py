"""The query of a read: where to begin, and how long to stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import QueryParams

from millstream.api.durable.denied import Denied
from millstream.durable import DurableStream
from millstream.durable.offsets import NOW, Offset, parse_offset

Mode = Literal["catch-up", "long-poll", "sse"]
_MODES: Mapping[str | None, Mode] = {None: "catch-up", "long-poll": "long-poll", "sse": "sse"}


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """``offset`` as the client gave it, ``cursor`` its echo of an earlier answer's."""

    offset: Offset
    now: bool
    mode: Mode
    cursor: str | None


def read_query(params: QueryParams) -> ReadQuery:
    """The query; raises `Denied`. Parameters that are not known are ignored."""
    mode = _mode(params.get("live"))
    tokens = params.getlist("offset")
    if len(tokens) > 1:
        raise _bad_offset("There is more than one offset.")
    if not tokens and mode != "catch-up":
        raise _bad_offset("A live read names its offset.")
    offset = parse_offset(tokens[0]) if tokens else Offset(0)
    if offset is None:
        raise _bad_offset("The offset is not one that this server gave out.")
    return ReadQuery(offset, tokens == [NOW], mode, params.get("cursor"))


def place(stream: DurableStream, offset: Offset) -> int:
    """The position to read from; raises `Denied`."""
    if offset.stream_id is not None and offset.stream_id != stream.id:
        message = "The offset is one of an earlier stream at this path."
        raise Denied(410, "offset_of_earlier_stream", message)
    if offset.position is None:
        return stream.tail
    if offset.position > stream.tail:
        raise _bad_offset("The offset is ahead of the stream's end.")
    return offset.position


def _mode(live: str | None) -> Mode:
    mode = _MODES.get(live)
    if mode is None:
        raise Denied(400, "invalid_live_mode", "live must be long-poll or sse.")
    return mode


def _bad_offset(message: str) -> Denied:
    return Denied(400, "invalid_offset", message)
