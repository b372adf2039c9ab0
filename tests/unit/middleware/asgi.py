"""Apps called as a server would call them, one request at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}
LAST: Message = {"type": "http.response.body", "body": b"x", "more_body": False}


@dataclass
class Exchange:
    """One request and all that was sent for it; ``receive`` and ``send`` are its own objects."""

    scope: Scope
    sent: list[Message] = field(default_factory=list)

    async def receive(self) -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def fields(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


def request(
    *headers: tuple[bytes, bytes], method: str = "GET", path: str = "/", **state: object
) -> Exchange:
    """A request that nobody has served yet."""
    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"secret=1",
        "headers": list(headers),
        "client": ("192.0.2.1", 4711),
        "state": dict(state),
    }
    return Exchange(scope)


async def served(app: ASGIApp, exchange: Exchange | None = None) -> Exchange:
    """The exchange after the app has returned."""
    exchange = exchange or request()
    await app(exchange.scope, exchange.receive, exchange.send)
    return exchange


async def answers(_scope: Scope, _receive: Receive, send: Send) -> None:
    """An app that answers in two messages."""
    await send(START)
    await send(LAST)


async def refuses(_scope: Scope, _receive: Receive, send: Send) -> None:
    """An app that knows no such thing."""
    await send({**START, "status": 404})
    await send(LAST)


async def fails_before(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """An app that raises before its response begins."""
    raise RuntimeError("before")


async def fails_after(_scope: Scope, _receive: Receive, send: Send) -> None:
    """An app that raises in the middle of its response."""
    await send(START)
    await send({**LAST, "more_body": True})
    raise RuntimeError("after")


async def gives_up(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """An app that heard that the client has left."""


async def settle() -> None:
    """Let everything that can run now run."""
    for _ in range(10):
        await asyncio.sleep(0)
