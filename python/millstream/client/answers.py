"""What an answer that is no stream means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from millstream.client.errors import ClientError, RequestRefused, StreamGap, StreamNotFound
from millstream.client.events import failure_of

_TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def is_event_stream(headers: Mapping[str, str]) -> bool:
    """Whether the body is what was asked for, and not the page of some proxy."""
    kind = headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower() == "text/event-stream"


def is_temporary(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status in _TEMPORARY


def asked_seconds(headers: Mapping[str, str]) -> float:
    """How long the server wants to be left alone; 0 if it does not say, or says a date."""
    milliseconds = headers.get("retry-after-ms", "")
    if _SECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    seconds = headers.get("retry-after", "")
    return float(seconds) if _SECONDS.fullmatch(seconds) else 0.0


def refusal(status: int, body: bytes, after: int) -> ClientError:
    """The failure that an answer stands for; ``after`` is the seq that was asked for."""
    content = _object(body)
    failure = failure_of(content.get("error"))
    if status == HTTPStatus.GONE and {"oldest", "latest"} <= content.keys():
        oldest, latest = int(content["oldest"]), int(content["latest"])
        return StreamGap(after + 1, oldest - 1, oldest, latest)
    message = failure.message if failure else _phrase(status)
    kind = StreamNotFound if status == HTTPStatus.NOT_FOUND else RequestRefused
    return kind(status, message, failure)


def _phrase(status: int) -> str:
    if status == HTTPStatus.OK:
        return "the answer is not an event stream of Millstream"
    known = status in HTTPStatus._value2member_map_
    return HTTPStatus(status).phrase if known else "no reason given"


def _object(body: bytes) -> dict[str, Any]:
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return content if isinstance(content, dict) else {}
