"""The requests that a read consists of, without the library that sends them."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

import msgspec

from millstream.client.event_id import EventId

STREAMS = "/v1/streams"
_KEY = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; ``path`` is below the server's address."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


def opening(parameters: Mapping[str, object], *, integrity: bool, key: str | None) -> Request:
    """The POST that makes a stream, under a key so that a repetition does not make another.

    Raises ValueError for a key that is not 1 to 255 visible ASCII characters.
    """
    key = secrets.token_hex(16) if key is None else key
    if not _KEY.fullmatch(key):
        raise ValueError("an idempotency key has 1 to 255 visible ASCII characters")
    body = {"stream": True, "resumable": True, "integrity": integrity, **parameters}
    headers = {
        "Accept": "text/event-stream",
        "Content-Type": "application/json",
        "Idempotency-Key": key,
    }
    return Request("POST", STREAMS, headers, body=msgspec.json.encode(body))


def resumption(stream_id: str, after: EventId | None, *, snapshot: bool) -> Request:
    """The GET that reads on after an event, or from the beginning."""
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    params = {"dialect": "native"} | ({"on_gap": "snapshot"} if snapshot else {})
    return Request("GET", path_of(stream_id), headers, params)


def cancellation(stream_id: str) -> Request:
    """The POST that ends a stream."""
    headers = {"Content-Type": "application/json"}
    return Request("POST", f"{path_of(stream_id)}/cancel", headers, body=b"{}")


def path_of(stream_id: str) -> str:
    """Where a stream is read."""
    return f"{STREAMS}/{quote(stream_id, safe='')}"


def stream_id_of(stream: str, base_url: str) -> str:
    """The id in an id, a path or a URL; ValueError for a URL of another server.

    The API key would go there.
    """
    if not stream.startswith(("/", "http://", "https://")):
        return stream
    parts = urlsplit(stream)
    if parts.netloc and parts[:2] != urlsplit(base_url)[:2]:
        raise ValueError(f"{stream} is not on {base_url}")
    return unquote(parts.path.rstrip("/").rpartition("/")[2])


def server_of(base_url: str) -> str:
    """The address of the server, also if its API's was given; ValueError for no address."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"not an http or https address: {base_url!r}")
    return base_url.rstrip("/").removesuffix("/v1")
