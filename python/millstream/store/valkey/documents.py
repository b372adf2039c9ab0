"""The latest configuration that instances share: under one key, with news of it on a channel."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime

import msgspec
from valkey.asyncio.connection import ConnectionPool

from millstream.config import Document
from millstream.errors import ConfigError, StoreUnavailable
from millstream.store.valkey.line import Line
from millstream.telemetry.timestamps import rfc3339

CALL_SECONDS = 2.0
PING_SECONDS = 5.0
"""Silence after which the subscription is asked whether it still stands."""
LARGEST_BYTES = 16 << 20


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is stored."""

    written_ns: int
    toml: str


class Documents:
    """The key ``name`` and the channel ``name`` of one Valkey.

    Every method raises `StoreUnavailable` if it does not answer in time.
    """

    def __init__(self, url: str, name: str) -> None:
        self._name = name
        # With a time limit of its own the client waits by `asyncio.wait_for`, which until
        # Python 3.12 loses a cancellation that comes with the result.
        self._pool = ConnectionPool.from_url(url, socket_timeout=None)

    async def read(self) -> Document | None:
        """The latest document, if there is any; raises `ConfigError` for what is none."""
        async with self._line() as line:
            (text,) = await line.call(("GET", self._name))
        return _document(self._name, text)

    async def publish(self, document: Document) -> bool:
        """Store it and tell of it, unless the same text or a newer one is there already."""
        async with self._line() as line:
            there = _kept(await self._watched(line))
            if there is not None and (
                there.toml == document.text or there.written_ns >= document.written_ns
            ):
                return False
            # If somebody else was a moment earlier, everybody hears of that one.
            return await self._write(line, document.written_ns, document.text) is not None

    async def push(self, document: Document) -> int:
        """Store it as the newest of all, and tell of it; returns how many have listened."""
        async with self._line() as line:
            while True:
                there = _kept(await self._watched(line))
                # Clocks differ, and whoever pushes means it.
                least_ns = 0 if there is None else there.written_ns + 1
                written_ns = max(document.written_ns, least_ns)
                heard = await self._write(line, written_ns, document.text)
                if heard is not None:
                    return heard

    async def news(self) -> AsyncGenerator[bool]:
        """False when listening has begun, so that nothing is missed from there on, and True for
        each document after that. Ends with `StoreUnavailable`.
        """
        async with self._line() as line:
            await line.call(("SUBSCRIBE", self._name))
            yield False
            asked = False
            while True:
                message = await line.hear(CALL_SECONDS if asked else PING_SECONDS)
                if message is None and asked:
                    raise StoreUnavailable("Valkey does not answer: no reply to PING")
                asked = message is None
                if message is None:
                    await line.say(("PING",))
                elif message[0] == b"message":
                    yield True

    def _line(self) -> Line:
        return Line(self._pool.make_connection(), call_seconds=CALL_SECONDS)

    async def _watched(self, line: Line) -> bytes | None:
        _, text = await line.call(("WATCH", self._name), ("GET", self._name))
        return None if text is None else bytes(text)

    async def _write(self, line: Line, written_ns: int, text: str) -> int | None:
        """How many have heard of it; None if what was watched has changed."""
        stored = msgspec.json.encode(_Kept(written_ns, text))
        *_, done = await line.call(
            ("MULTI",),
            ("SET", self._name, stored),
            ("PUBLISH", self._name, written_ns),
            ("EXEC",),
        )
        return None if done is None else int(done[1])


def _kept(text: bytes | None) -> _Kept | None:
    """What is stored, None also if it is unreadable: then anything is better."""
    try:
        return None if text is None else msgspec.json.decode(text, type=_Kept)
    except msgspec.DecodeError:
        return None


def _document(name: str, text: bytes | None) -> Document | None:
    if text is None:
        return None
    if len(text) > LARGEST_BYTES:
        raise ConfigError(f"{name}: the document is larger than {LARGEST_BYTES} bytes")
    try:
        kept = msgspec.json.decode(text, type=_Kept)
        written = datetime.fromtimestamp(kept.written_ns / 1e9, UTC)
    except (msgspec.DecodeError, OverflowError, ValueError, OSError) as error:
        raise ConfigError(f"{name}: the document cannot be read: {error}") from error
    when = rfc3339(written, timespec="milliseconds")
    return Document(kept.written_ns, kept.toml, f"{name} of {when}")
