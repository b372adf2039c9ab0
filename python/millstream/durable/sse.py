"""Events of a live read.

One deliberate difference from the rest of Millstream: the protocol's conformance suite wants
``data:`` without the space that we write elsewhere. A line that itself begins with a space gets
one more, so that no reader loses it.
"""

from __future__ import annotations

import re
from base64 import b64encode

import msgspec

from millstream.durable.content_type import ContentType

KEEP_ALIVE = b":\n"
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Control(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Where the reader is; every data event is followed by one."""

    stream_next_offset: str
    stream_cursor: str | None = None
    up_to_date: bool = False
    stream_closed: bool = False


def data_event(data: bytes, content_type: ContentType) -> bytes:
    """Content as one event: text as it is, anything else in base64."""
    if not content_type.is_text:
        return b"event: data\ndata:" + b64encode(data) + b"\n\n"
    # Invalid UTF-8 would make the whole event stream invalid.
    text = data.decode(errors="replace").encode()
    return b"event: data\n" + b"".join(map(_data_line, _LINE_END.split(text))) + b"\n"


def control_event(control: Control) -> bytes:
    """The event after the content, or alone when there is nothing to read."""
    return b"event: control\ndata:" + msgspec.json.encode(control) + b"\n\n"


def whole_characters(data: bytes) -> bytes:
    """``data`` without a UTF-8 character at its end whose rest is still to come."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-length] if length < wanted else data
        if byte < 0x80:
            break
    return data


def _data_line(line: bytes) -> bytes:
    return b"data:" + (b" " if line.startswith(b" ") else b"") + line + b"\n"
