"""What a worker and the engine process say to each other over the Unix socket.

Each message is a msgpack map behind its length (u32, big-endian). Text never travels here: it
goes through the ring, whose two descriptors ride on the worker's ``Hello`` (``SCM_RIGHTS``:
shared memory first, then the wake-up descriptor).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Generic, TypeVar

import msgspec

from millstream.engines.base import EngineStats
from millstream.types import SamplingParams

PROTOCOL_VERSION = 1

MAX_MESSAGE_BYTES = 32 << 20
"""Room for a prompt of several million tokens; anything longer is no message of ours."""

_LENGTH_BYTES = 4

M = TypeVar("M")


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Worker to engine, first message of a connection."""

    version: int
    pid: int


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Engine to worker, answer to ``Hello`` once the model is loaded."""

    version: int
    pid: int
    model: str
    context_length: int
    """Most tokens of prompt and completion together."""
    cache_tokens: int
    """Tokens that the whole page pool can hold."""
    max_batch: int


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """Worker to engine: generate. ``request`` is unique on this connection."""

    request: int
    prompt: list[int]
    params: SamplingParams
    flow_id: str = ""
    """Name of the work that this is part of, for the engine's own log."""


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """Worker to engine: stop before the next step, free the pages, write no more records.

    Unknown and finished requests are ignored.
    """

    request: int


class StatsRequest(msgspec.Struct, frozen=True, tag="stats_request"):
    """Worker to engine: answer with ``Stats``."""

    token: int


class Stats(msgspec.Struct, frozen=True, tag="stats"):
    """Engine to worker: the scheduler at this moment, for the request of this token."""

    token: int
    stats: EngineStats


FromWorker = Hello | Submit | Abort | StatsRequest
FromEngine = Welcome | Stats


class ProtocolError(Exception):
    """The peer sent something that no message can be read from."""


def encode(message: FromWorker | FromEngine) -> bytes:
    """One message behind its length."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


class MessageDecoder(Generic[M]):
    """Cuts a byte stream into messages, whatever pieces it arrives in."""

    def __init__(self, message_type: type[M] | UnionType) -> None:
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(message_type)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[M]:
        """The messages that are complete now.

        Raises `ProtocolError` for a length above `MAX_MESSAGE_BYTES` or another form.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTH_BYTES:
            length = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
            if length > MAX_MESSAGE_BYTES:
                raise ProtocolError(f"a message of {length} bytes")
            end = _LENGTH_BYTES + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH_BYTES:end])
            del self._buffer[:end]
            try:
                yield self._decoder.decode(body)
            except msgspec.MsgspecError as error:
                raise ProtocolError(str(error)) from error
