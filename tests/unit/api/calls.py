"""Requests whose clients leave when the test says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message


class Call:
    """One POST, in a task of its own; what the app sends is kept."""

    def __init__(
        self,
        app: ASGIApp,
        path: str,
        body: Mapping[str, object],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.sent: list[Message] = []
        self._gone = asyncio.Event()
        self._body = json.dumps(body).encode()
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [
                (name.lower().encode(), value.encode())
                for name, value in {
                    "content-type": "application/json",
                    "host": "test",
                    **(headers or {}),
                }.items()
            ],
            "state": {},
        }
        self.task = asyncio.create_task(self._run(app))

    async def _run(self, app: ASGIApp) -> None:
        await app(self.scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if self._body:
            body, self._body = self._body, b""
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    async def leave(self) -> None:
        """The client closes its connection."""
        self._gone.set()
        await settle()

    @property
    def status(self) -> int | None:
        """The answer's status, once it has begun."""
        return next((int(one["status"]) for one in self.sent if "status" in one), None)

    @property
    def headers(self) -> dict[str, str]:
        """The answer's fields."""
        start = next(one for one in self.sent if "status" in one)
        return {name.decode(): value.decode() for name, value in start["headers"]}

    @property
    def body(self) -> bytes:
        """The answer, as far as it has come."""
        return b"".join(one.get("body", b"") for one in self.sent)


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(30):
        await asyncio.sleep(0)
