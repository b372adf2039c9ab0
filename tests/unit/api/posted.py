"""A request whose body arrives in pieces."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.types import Message

JSON = {"content-type": "application/json"}


def posted(headers: Mapping[str, str], *chunks: bytes, cut: bool = False) -> Request:
    """A POST of these pieces; ``cut``: the client leaves before the last."""
    messages: list[Message] = [
        {"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks
    ]
    end: Message = {"type": "http.request", "body": b"", "more_body": False}
    messages.append({"type": "http.disconnect"} if cut else end)

    async def receive() -> Message:
        return messages.pop(0)

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": raw}, receive)
