"""Streams for threads."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
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


class Client(BaseClient["Stream"]):
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
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(base_url, api_key, policy, idle_seconds)
        self._owns_http = http is None
        self._http = httpx.Client() if http is None else http

    def cancel(self, stream_id: str) -> None:
        """End a stream, whoever reads it; raises `RequestRefused`, or httpx's errors."""
        _cancel(self._server, self._http, stream_id)

    def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        if self._owns_http:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _stream(self, follower: Follower) -> Stream:
        return Stream(self._server, self._http, follower)


class Stream(Followed):
    """One stream, iterated over the text of its first choice; see `pieces` for all choices.

    Iterating raises `ClientError`s, each after the text that came before it. Closing it, or
    leaving its ``with`` block, leaves the stream to others and to `Client.follow`.
    """

    def __init__(self, server: Server, http: httpx.Client, follower: Follower) -> None:
        super().__init__(follower)
        self._server = server
        self._http = http
        self._pieces = self._read()

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self._pieces if piece.is_first and piece.text)

    def pieces(self) -> Iterator[Piece]:
        """The text of all branches and choices as it comes."""
        return self._pieces

    def cancel(self) -> None:
        """End the generation; iterating then ends after what was still under way.

        Raises `RequestRefused`, or httpx's errors.
        """
        self._follower.cancelling = True
        if self.id is not None:
            _cancel(self._server, self._http, self.id)

    def close(self) -> None:
        """Close the connection."""
        self._pieces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _read(self) -> Generator[Piece]:
        while (attempt := self._follower.next_attempt(time.monotonic())) is not None:
            time.sleep(attempt.delay_seconds)
            try:
                yield from self._connect(attempt)
            except BROKEN as error:
                self._follower.cut(error)

    def _connect(self, attempt: Attempt) -> Iterator[Piece]:
        arguments = self._server.arguments(attempt.request)
        with self._http.stream(**arguments, timeout=self._server.timeout(attempt)) as answer:
            if not self._follower.answered(answer.status_code, answer.headers):
                self._follower.refused(answer.status_code, answer.headers, answer.read())
                return
            if self._follower.cancelling and self.id is not None:
                _cancel(self._server, self._http, self.id)
            for data in answer.iter_bytes():
                yield from self._follower.feed(data, time.monotonic())
                if not self._follower.reading:
                    break
            self._follower.cut()


def _cancel(server: Server, http: httpx.Client, stream_id: str) -> None:
    answer = http.request(**server.arguments(cancellation(stream_id)))
    if not answer.is_success:
        raise refusal(answer.status_code, answer.content, 0)
