"""Messages over one Unix socket, the same on both ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import UnionType
from typing import Generic, TypeVar, cast

from millstream.engines.torch.protocol import (
    FromEngine,
    FromWorker,
    MessageDecoder,
    ProtocolError,
    encode,
)

M = TypeVar("M")

MAX_UNSENT_BYTES = 64 << 20
"""What may wait for a peer that does not read, before it is given up."""


class Connection(asyncio.Protocol, Generic[M]):
    """Calls ``on_message`` for each message and ``on_close`` once; a breach closes it."""

    def __init__(
        self,
        message_type: type[M] | UnionType,
        on_message: Callable[[M], None],
        on_close: Callable[[], None],
    ) -> None:
        self.fault: str | None = None
        """Why this end closed the connection, if it did so because of the other."""
        self._decoder: MessageDecoder[M] = MessageDecoder(message_type)
        self._on_message = on_message
        self._on_close = on_close
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        try:
            for message in self._decoder.feed(data):
                if self.closed:
                    return
                self._on_message(message)
        except ProtocolError as error:
            self.abandon(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop, once."""
        self._transport = None
        on_close, self._on_close = self._on_close, _nothing
        # The owner's methods refer back to it: without them its ring is freed now, not by chance.
        self._on_message = _nothing
        on_close()

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def send(self, message: FromWorker | FromEngine) -> bool:
        """Hand a message to the socket without waiting; False if the connection is closed.

        What the peer has not taken waits in memory. A peer that leaves more than
        `MAX_UNSENT_BYTES` waiting is given up.
        """
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(encode(message))
        if self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.abandon("the peer does not read")
            return False
        return True

    def abandon(self, fault: str) -> None:
        """Close at once because of something that the peer did."""
        if self._transport is not None:
            self.fault = self.fault or fault
            self._transport.abort()

    def close(self) -> None:
        """Close once everything is sent."""
        if self._transport is not None:
            self._transport.close()


def _nothing(*_: object) -> None:
    pass
