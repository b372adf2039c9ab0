"""Reads Millstream's streams to their end: reconnects by itself, verifies and yields text.

    from millstream.client import Client

    with Client("http://127.0.0.1:8000") as client:
        for text in client.stream(model="chat", prompt="Once upon a time"):
            print(text, end="", flush=True)

Only the two clients need httpx (`pip install 'millstream[client]'`); `Follower` and `Verifier`
work over any transport.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from millstream.client.errors import (
    ClientError,
    ConnectionLost,
    DeadlineExceeded,
    IntegrityError,
    RequestRefused,
    StreamFailed,
    StreamGap,
    StreamNotFound,
)
from millstream.client.event_id import EventId
from millstream.client.events import Checks
from millstream.client.follower import Attempt, Follower
from millstream.client.reconnect import ReconnectPolicy
from millstream.client.transcript import Piece
from millstream.client.verifier import Verifier

if TYPE_CHECKING:
    from millstream.client.async_client import AsyncClient, AsyncStream
    from millstream.client.sync_client import Client, Stream

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "Attempt",
    "Checks",
    "Client",
    "ClientError",
    "ConnectionLost",
    "DeadlineExceeded",
    "EventId",
    "Follower",
    "IntegrityError",
    "Piece",
    "ReconnectPolicy",
    "RequestRefused",
    "Stream",
    "StreamFailed",
    "StreamGap",
    "StreamNotFound",
    "Verifier",
]

_NEED_HTTPX = {
    "AsyncClient": "async_client",
    "AsyncStream": "async_client",
    "Client": "sync_client",
    "Stream": "sync_client",
}

# Type checkers take such a function for leave to import any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _NEED_HTTPX:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_NEED_HTTPX[name]}"), name)
