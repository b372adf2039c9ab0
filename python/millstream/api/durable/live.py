"""The ASGI response of ``live=sse``: content as it comes, until the stream or the time ends."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from starlette.responses import Response

from millstream.api.durable import headers as field
from millstream.durable.cursor import later_cursor, next_cursor
from millstream.durable.sse import (
    KEEP_ALIVE,
    Control,
    control_event,
    data_event,
    whole_characters,
)
from millstream.streams.response import DIRECT_SEND, body_begun, client_departure

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from millstream.api.durable.service import DurableService
    from millstream.durable import DurableStream


class LiveResponse(Response):
    """One reader; what it has not taken stays in the stream and is never queued for it."""

    def __init__(
        self, stream: DurableStream, position: int, cursor: str | None, *, service: DurableService
    ) -> None:
        self.status_code = 200
        self.background = None
        self._stream = stream
        self._position = position
        self._service = service
        self._cursor = next_cursor(cursor, unix_ns=service.wall_clock(), jitter=service.jitter)
        self._greeted = False
        headers = {
            "content-type": "text/event-stream",
            "cache-control": "no-cache",
            "x-accel-buffering": "no",
        }
        if not stream.content_type.is_text:
            headers[field.SSE_ENCODING] = "base64"
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end; return early when the client leaves or takes nothing."""
        departure = asyncio.ensure_future(client_departure(receive))
        try:
            with self._stream.reading(self._service.clock):
                await send(
                    {
                        "type": "http.response.start",
                        "status": self.status_code,
                        "headers": self.raw_headers,
                    }
                )
                begun = body_begun(scope)
                if begun is not None:
                    begun()
                await self._run(scope.get(DIRECT_SEND, send), departure)
        except TimeoutError:
            # Without its last message the server cuts the body: the client comes again.
            return
        finally:
            departure.cancel()

    async def _run(self, send: Send, departure: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._service.settings.sse_seconds
        silent_since = loop.time()
        interval = self._service.keep_alive_seconds or math.inf
        while not departure.done():
            frame, ended = self._next()
            left = deadline - loop.time()
            ended = ended or left <= 0 or self._service.streams.leaving
            quiet = interval - (loop.time() - silent_since)
            if not frame and not ended and quiet > 0:
                await self._stream.waiters.wait(min(left, quiet), departure)
                continue
            await self._send(send, frame or (b"" if ended else KEEP_ALIVE), more=not ended)
            silent_since = loop.time()
            if ended:
                return

    async def _send(self, send: Send, body: bytes, *, more: bool) -> None:
        async with asyncio.timeout(self._service.blocked_send_seconds):
            await send({"type": "http.response.body", "body": body, "more_body": more})

    def _next(self) -> tuple[bytes, bool]:
        """What is due, and whether it is the last; an empty frame if nothing is."""
        if self._stream.gone:
            return b"", True
        start = self._position
        event = self._content()
        ended = self._stream.closed and self._position == self._stream.tail
        if self._position == start and self._greeted and not ended:
            return b"", False
        self._greeted = True
        return event + self._control(ended=ended), ended

    def _content(self) -> bytes:
        """A data event, if there is content; moves the position behind it."""
        stream = self._stream
        extract = stream.read(self._position, self._service.settings.max_read_bytes)
        data, end = extract.data, extract.end
        if stream.content_type.is_text and not stream.content_type.is_json:
            complete = stream.closed and end == stream.tail
            data = data if complete else whole_characters(data)
            end = self._position + len(data)
        if end == self._position:
            return b""
        self._position = end
        return data_event(data, stream.content_type)

    def _control(self, *, ended: bool) -> bytes:
        self._cursor = later_cursor(self._cursor, unix_ns=self._service.wall_clock())
        return control_event(
            Control(
                stream_next_offset=self._stream.offset(self._position),
                stream_cursor=None if ended else self._cursor,
                up_to_date=self._position == self._stream.tail,
                stream_closed=ended,
            )
        )
