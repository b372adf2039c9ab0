"""A connection that may not outlive the credential behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from millstream.streams.failures import CREDENTIAL_EXPIRED

if TYPE_CHECKING:
    from millstream.store.descriptor import DialectName
    from millstream.streams.encoding import Framing


@dataclass(frozen=True, slots=True)
class Expiry:
    """When a connection is cut, in nanoseconds of the monotonic clock, and how.

    ``ends_stream`` ends the stream where nobody else may read on, and says whether it did: then
    the reader drains to that end. Else ``frame`` is the last that it gets.
    """

    at_ns: int
    frame: bytes
    ends_stream: Callable[[], bool] = lambda: False


def expired_frame(dialect: DialectName, framing: Framing) -> bytes:
    """The error that a reader is told out of band: it has no id, since it is no record.

    Nor has it a ``sequence_number`` in the Responses dialect, where a client would come back after
    the number and miss the event that really has it.
    """
    value: dict[str, object] = {"error": msgspec.structs.asdict(CREDENTIAL_EXPIRED)}
    if dialect == "responses":
        told = CREDENTIAL_EXPIRED
        value = {"type": "error", "code": told.code, "message": told.message, "param": None}
    if framing == "ndjson":
        named = {"event": "error", **value} if dialect == "native" else value
        return msgspec.json.encode(named) + b"\n"
    event = b"event: error\n" if dialect in ("native", "responses") else b""
    return event + b"data: " + msgspec.json.encode(value) + b"\n\n"
