"""One conversation with Valkey: commands out, replies back, a new connection after a loss."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valkey.asyncio.connection import AbstractConnection, ConnectionPool
from valkey.exceptions import ResponseError

from millstream.errors import StoreUnavailable
from millstream.store.valkey.wire import BROKEN, packed

if TYPE_CHECKING:
    from millstream.store.observer import Operation
    from millstream.store.valkey.health import Health
    from millstream.store.valkey.wire import Command

CALL_SECONDS = 2.0

Reply = Any
"""Bytes, int, None or a list of these: what the protocol has. Errors are `ResponseError` values."""


class Connection:
    """Opened at the first call, and again after a loss; calls wait for each other.

    All connections of a process share its `Health`, so that once one of them has found the server
    gone none of the others trusts its socket.
    """

    def __init__(self, url: str, health: Health) -> None:
        self._pool = ConnectionPool.from_url(url, socket_timeout=None)
        self._health = health
        self._connection: AbstractConnection | None = None
        self._opened_at = 0
        self._lock = asyncio.Lock()

    async def call(self, operation: Operation, *commands: Command) -> list[Reply]:
        """One round trip; raises `StoreUnavailable` also if the server refuses one of them."""
        replies = await self.send(operation, commands)
        for reply in replies:
            if isinstance(reply, ResponseError):
                self._health.refused(operation, reply)
                raise StoreUnavailable("The stream store refuses at the moment.") from reply
        return replies

    async def send(
        self,
        operation: Operation,
        commands: Sequence[Command],
        *,
        wait_seconds: float = 0.0,
    ) -> list[Reply]:
        """One round trip; what the server refuses has a `ResponseError` as its reply.

        ``wait_seconds`` is how long the commands themselves may wait. Raises `StoreUnavailable` if
        no answer comes in time.
        """
        async with self._lock:
            if not self._health.may_try():
                raise StoreUnavailable("The stream store does not answer at the moment.")
            try:
                async with asyncio.timeout(wait_seconds + CALL_SECONDS):
                    replies = await self._converse(commands)
            except BROKEN as error:
                await self._drop()
                self._health.failed(operation, error)
                raise StoreUnavailable("The stream store does not answer.") from error
            except BaseException:
                # A reply that nobody waits for would be taken for that of the next call.
                await self._drop()
                raise
            self._health.answered()
            return replies

    async def close(self) -> None:
        """Let the server go; a later call would open anew."""
        await self._drop()

    async def _converse(self, commands: Sequence[Command]) -> list[Reply]:
        connection = await self._open()
        await connection.send_packed_command(packed(commands), False)
        replies = []
        for _ in commands:
            try:
                replies.append(await connection.read_response(disable_decoding=True))
            except ResponseError as error:
                replies.append(error)
        return replies

    async def _open(self) -> AbstractConnection:
        if self._connection is not None and self._opened_at == self._health.failures:
            return self._connection
        await self._drop()
        connection: AbstractConnection = self._pool.make_connection()
        self._connection = connection
        await connection.connect()
        self._opened_at = self._health.failures
        return connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)
