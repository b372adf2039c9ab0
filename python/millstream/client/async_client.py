"""Streams for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Self

from millstream.client.answers import refusal
from millstream.client.base import BaseClient
from millstream.client.followed import Followed
from millstream.client.follower import Attempt, Follower
from millstream.client.library import BROKEN, httpx
from millstream.client.reconnect import ReconnectPolicy
from millstream.client.request import cancellation
from millstream.client.server import Server
from millstream.client.transcript import Piece


class AsyncClient(BaseClient["AsyncStream"]):
    """Reads streams of one server, each to its end over as many connections as it takes.

    ``idle_seconds`` without a byte count as a cut: keep it above the server's keep-alive time.
    ``http`` replaces the connections that it makes itself, and is not closed with it. Raises
    ValueError if ``base_url`` is no http or https address.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        policy: ReconnectPolicy | None = None,
        idle_seconds: float | None = 60.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(base_url, api_key, policy, idle_seconds)
        self._owns_http = http is None
        self._http = httpx.AsyncClient() if http is None else http

    async def cancel(self, stream_id: str) -> None:
        """End a stream, whoever reads it; raises `RequestRefused`, or httpx's errors."""
        await _cancel(self._server, self._http, stream_id)

    async def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    def _stream(self, follower: Follower) -> AsyncStream:
        return AsyncStream(self._server, self._http, follower)


class AsyncStream(Followed):
    """One stream, iterated over the text of its first choice; see `pieces` for all choices.

    Iterating raises `ClientError`s, each after the text that came before it. Closing it, or
    leaving its ``with`` block, leaves the stream to others and to `AsyncClient.follow`.
    """

    def __init__(self, server: Server, http: httpx.AsyncClient, follower: Follower) -> None:
        super().__init__(follower)
        self._server = server
        self._http = http
        self._pieces = self._read()

    def __aiter__(self) -> AsyncIterator[str]:
        return (piece.text async for piece in self._pieces if piece.is_first and piece.text)

    def pieces(self) -> AsyncIterator[Piece]:
        """The text of all branches and choices as it comes."""
        return self._pieces

    async def cancel(self) -> None:
        """End the generation; iterating then ends after what was still under way.

        Raises `RequestRefused`, or httpx's errors.
        """
        self._follower.cancelling = True
        if self.id is not None:
            await _cancel(self._server, self._http, self.id)

    async def close(self) -> None:
        """Close the connection."""
        await self._pieces.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def _read(self) -> AsyncGenerator[Piece]:
        while (attempt := self._follower.next_attempt(time.monotonic())) is not None:
            await asyncio.sleep(attempt.delay_seconds)
            try:
                async with aclosing(self._connect(attempt)) as pieces:
                    async for piece in pieces:
                        yield piece
            except BROKEN as error:
                self._follower.cut(error)

    async def _connect(self, attempt: Attempt) -> AsyncGenerator[Piece]:
        arguments = self._server.arguments(attempt.request)
        timeout = self._server.timeout(attempt)
        async with self._http.stream(**arguments, timeout=timeout) as answer:
            if not self._follower.answered(answer.status_code, answer.headers):
                self._follower.refused(answer.status_code, answer.headers, await answer.aread())
                return
            if self._follower.cancelling and self.id is not None:
                await _cancel(self._server, self._http, self.id)
            async for data in answer.aiter_bytes():
                for piece in self._follower.feed(data, time.monotonic()):
                    yield piece
                if not self._follower.reading:
                    break
            self._follower.cut()


async def _cancel(server: Server, http: httpx.AsyncClient, stream_id: str) -> None:
    answer = await http.request(**server.arguments(cancellation(stream_id)))
    if not answer.is_success:
        raise refusal(answer.status_code, answer.content, 0)
