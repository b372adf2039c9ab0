"""A relay before a server, that resets its connections as a balancer or a lost address does."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_AT_ONCE = struct.pack("ii", 1, 0)


class Relay:
    """Where to connect to, and how to lose what is connected."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self.url = ""

    @property
    def connections(self) -> list[asyncio.StreamWriter]:
        """Those that are open, the oldest first."""
        return list(self._open)

    async def reset(self, writer: asyncio.StreamWriter) -> None:
        """Reset one that is still open, and return when the loop has seen it."""
        if writer not in self._open:
            return
        peer = writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        writer.transport.abort()
        for _ in range(20):  # rounds of the loop, in the first of which the reset can be read
            await asyncio.sleep(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = asyncio.current_task()
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [_pipe(reader, there_writer), _pipe(there_reader, writer)]
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._open[writer]
            for task in tasks:
                task.cancel()
            for end in (there_writer, writer):
                end.close()
                with suppress(OSError):
                    await end.wait_closed()

    async def close(self) -> None:
        tasks = [task for task in self._open.values() if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, RuntimeError):
        while data := await reader.read(1 << 16):
            writer.write(data)


@asynccontextmanager
async def relay_to(port: int) -> AsyncIterator[Relay]:
    """A relay to a port of this machine."""
    relay = Relay(port)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.url = f"valkey://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    try:
        yield relay
    finally:
        server.close()
        await relay.close()
