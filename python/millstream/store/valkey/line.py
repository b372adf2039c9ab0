"""One connection for one purpose: opened for it, closed after it, never taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from millstream.config.secrets import scrubbed
from millstream.errors import StoreUnavailable
from millstream.store.valkey.wire import BROKEN, Command, packed

if TYPE_CHECKING:
    from valkey.asyncio.connection import AbstractConnection


class Line:
    """A conversation that ends with the block. Every method raises `StoreUnavailable`."""

    def __init__(self, connection: AbstractConnection, *, call_seconds: float) -> None:
        self._connection = connection
        self._call_seconds = call_seconds

    async def __aenter__(self) -> Line:
        try:
            async with self._answered():
                await self._connection.connect()
        except BaseException:
            await self._connection.disconnect(nowait=True)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._connection.disconnect(nowait=True)

    async def call(self, *commands: Command) -> list[Any]:
        """The replies to these commands, in one round trip."""
        async with self._answered():
            await self._send(commands)
            return [await self._read(None) for _ in commands]

    async def say(self, command: Command) -> None:
        """Send a command whose reply is among what is heard."""
        async with self._answered():
            await self._send([command])

    async def hear(self, seconds: float) -> Any:
        """The next that the server says, None if it is silent for so long."""
        async with self._answered(seconds):
            return await self._read(seconds)

    async def _send(self, commands: list[Command] | tuple[Command, ...]) -> None:
        await self._connection.send_packed_command(packed(commands), False)

    async def _read(self, seconds: float | None) -> Any:
        return await self._connection.read_response(disable_decoding=True, timeout=seconds)

    @asynccontextmanager
    async def _answered(self, seconds: float = 0.0) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._call_seconds + seconds):
                yield
        except BROKEN as error:
            reason = scrubbed(str(error)) or type(error).__name__
            raise StoreUnavailable(f"Valkey does not answer: {reason}") from error
