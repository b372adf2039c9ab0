"""One connection of a worker to the engine: its socket and its ring, from hello to loss."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from millstream._core import RingConsumer
from millstream.engines.base import EngineStats
from millstream.engines.torch.connection import Connection
from millstream.engines.torch.handshake import send_hello
from millstream.engines.torch.protocol import (
    Abort,
    FromEngine,
    Stats,
    StatsRequest,
    Submit,
    Welcome,
)


class LinkLost(Exception):
    """The engine closed the connection, or the process behind it has ended."""


class Link:
    """Made by `open_link`; of no use any more once `lost` is set."""

    def __init__(self, on_lost: Callable[[Link], None]) -> None:
        self.ring = RingConsumer.create()
        self.connection: Connection[FromEngine] = Connection(
            FromEngine, self._received, self._closed
        )
        self.lost = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._welcome: asyncio.Future[Welcome] = loop.create_future()
        self._on_lost = on_lost
        self._stats: dict[int, asyncio.Future[EngineStats]] = {}
        self._next_token = 0

    async def welcomed(self) -> Welcome:
        """The engine's answer once its model is loaded; raises `LinkLost`."""
        return await self._welcome

    def send(self, message: Submit | Abort) -> bool:
        """Send without waiting; False if the link is lost."""
        return self.connection.send(message)

    async def close(self) -> None:
        """Close at once, whatever is unsent; the engine ends what this worker asked for."""
        self.connection.abandon("this worker lets go")
        await self.lost.wait()

    async def stats(self, timeout_seconds: float) -> EngineStats | None:
        """The scheduler at this moment; None if no answer comes in time."""
        self._next_token += 1
        token = self._next_token
        answer = self._stats[token] = asyncio.get_running_loop().create_future()
        try:
            if not self.connection.send(StatsRequest(token)):
                return None
            return await asyncio.wait_for(answer, timeout_seconds)
        except (TimeoutError, LinkLost):
            return None
        finally:
            del self._stats[token]

    def _received(self, message: FromEngine) -> None:
        match message:
            case Welcome():
                if not self._welcome.done():
                    self._welcome.set_result(message)
            case Stats():
                answer = self._stats.get(message.token)
                if answer is not None and not answer.done():
                    answer.set_result(message.stats)
            case _:
                assert_never(message)

    def _closed(self) -> None:
        for answer in self._stats.values():
            if not answer.done():
                answer.set_exception(LinkLost)
        if not self._welcome.done():
            self._welcome.set_exception(LinkLost)
            self._welcome.exception()  # nobody may be waiting for it; `lost` tells the loss
        self.lost.set()
        self._on_lost(self)


async def open_link(path: Path, on_lost: Callable[[Link], None]) -> Link | None:
    """Connect and introduce this worker; None if no engine listens there."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.setblocking(False)
    try:
        peer.connect(str(path))
        link = Link(on_lost)
        send_hello(peer, link.ring.memory_fd(), link.ring.notify_fd())
    except (FileNotFoundError, ConnectionError, BlockingIOError):
        peer.close()
        return None
    except BaseException:
        peer.close()
        raise
    loop = asyncio.get_running_loop()
    await loop.create_unix_connection(lambda: link.connection, sock=peer)
    return link
