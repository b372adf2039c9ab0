"""The first message of a connection, with the ring's two descriptors riding on it."""

from __future__ import annotations

import asyncio
import os
import socket
import struct

from millstream.engines.torch.protocol import (
    PROTOCOL_VERSION,
    FromWorker,
    Hello,
    MessageDecoder,
    ProtocolError,
    encode,
)

_CREDENTIALS = struct.Struct("3i")
_HELLO_BYTES = 4096


def same_user(peer: socket.socket) -> bool:
    """Whether the peer of a Unix socket runs as this user.

    Where the kernel does not tell, the directory's mode has already decided it.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    raw = peer.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return bool(uid == os.geteuid())


def send_hello(peer: socket.socket, memory_fd: int, notify_fd: int) -> None:
    """Introduce this worker and hand over its ring; the descriptors stay open here."""
    hello = encode(Hello(PROTOCOL_VERSION, os.getpid()))
    socket.send_fds(peer, [hello], [memory_fd, notify_fd])


async def receive_hello(peer: socket.socket) -> tuple[Hello, int, int]:
    """A worker's introduction and its ring's descriptors, now the caller's to close.

    Raises `ProtocolError` for anything else; descriptors that came with it are closed.
    """
    descriptors: list[int] = []
    try:
        hello = await _read(peer, descriptors)
        if len(descriptors) != 2:
            raise ProtocolError(f"{len(descriptors)} descriptors came with the hello")
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    return hello, descriptors[0], descriptors[1]


async def _read(peer: socket.socket, descriptors: list[int]) -> Hello:
    decoder: MessageDecoder[FromWorker] = MessageDecoder(FromWorker)
    while True:
        await _readable(peer)
        data, received, _, _ = socket.recv_fds(peer, _HELLO_BYTES, 2)
        descriptors.extend(received)
        if not data:
            raise ProtocolError("closed before the hello")
        for message in decoder.feed(data):
            if not isinstance(message, Hello):
                raise ProtocolError("the first message is no hello")
            if message.version != PROTOCOL_VERSION:
                raise ProtocolError(f"protocol version {message.version}")
            return message


async def _readable(peer: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(peer, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(peer)
