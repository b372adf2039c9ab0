"""One connection to Valkey: commands out, replies back, a new connection after a loss."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valkey.asyncio.connection import AbstractConnection, ConnectionPool
from valkey.exceptions import NoScriptError, ResponseError, ValkeyError

from millstream.admission.valkey.outage import Unreachable

if TYPE_CHECKING:
    from millstream.admission.valkey.script import Command

Reply = Any
"""Bytes, or the `ResponseError` that the server answered with."""

# The last is what uvloop raises who writes to a connection that was reset.
_BROKEN = (ValkeyError, OSError, RuntimeError)


class Lost(Exception):
    """A connection that had been idle was gone: whatever was sent on it may be sent once more."""


class Link:
    """Opened at the first exchange, and again after a loss. One exchange at a time."""

    def __init__(self, url: str, *, call_seconds: float) -> None:
        self._pool = ConnectionPool.from_url(url, socket_timeout=None)
        self._call_seconds = call_seconds
        self._connection: AbstractConnection | None = None

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        """Run the script once for each command, in one round trip.

        A server that does not know the script is told. Raises `Lost` if a connection that was open
        before has gone, `Unreachable` if no answer comes in time. What the server refuses has a
        `ResponseError` as its reply.
        """
        reused = self._connection is not None
        try:
            async with asyncio.timeout(self._call_seconds):
                replies = await self._converse([command.packed() for command in commands])
                unknown = [at for at, reply in enumerate(replies) if _unknown(reply)]
                if unknown:
                    again = [commands[at].packed(in_full=at == unknown[0]) for at in unknown]
                    for at, reply in zip(unknown, await self._converse(again), strict=True):
                        replies[at] = reply
        except TimeoutError as error:
            await self.close()
            raise Unreachable(f"no answer in {self._call_seconds} s", sent=True) from error
        except _BROKEN as error:
            await self.close()
            if reused:
                raise Lost from error
            raise Unreachable(_reason(error), sent=True) from error
        except BaseException:
            # A reply that nobody waits for would be taken for that of the next call.
            await self.close()
            raise
        return replies

    async def close(self) -> None:
        """Let the server go; a later exchange would open anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _converse(self, packed: Sequence[bytes]) -> list[Reply]:
        connection = await self._open()
        await connection.send_packed_command(packed, False)
        replies: list[Reply] = []
        for _ in packed:
            try:
                replies.append(await connection.read_response(disable_decoding=True))
            except ResponseError as error:
                replies.append(error)
        return replies

    async def _open(self) -> AbstractConnection:
        if self._connection is None:
            connection: AbstractConnection = self._pool.make_connection()
            self._connection = connection
            await connection.connect()
        return self._connection


def _unknown(reply: Reply) -> bool:
    return isinstance(reply, NoScriptError)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
