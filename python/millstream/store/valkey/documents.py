"""The latest configuration that instances share: under one key, with news of it on a channel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from valkey.asyncio import Valkey
from valkey.exceptions import ValkeyError, WatchError

from millstream.config import Document
from millstream.config.secrets import scrubbed
from millstream.errors import ConfigError, StoreUnavailable

if TYPE_CHECKING:
    from valkey.asyncio.client import PubSub

CALL_SECONDS = 2.0
PING_SECONDS = 5.0
"""Silence after which the subscription is asked whether it still stands."""
LARGEST_BYTES = 16 << 20

T = TypeVar("T")


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
        self._client: Any = Valkey.from_url(url, socket_connect_timeout=CALL_SECONDS)

    async def close(self) -> None:
        """Let the server go."""
        await self._client.aclose()

    async def read(self) -> Document | None:
        """The latest document, if there is any; raises `ConfigError` for what is none."""
        return _document(self._name, await _answer(self._client.get(self._name)))

    async def publish(self, document: Document) -> bool:
        """Store it and tell of it, unless the same text or a newer one is there already."""
        return await _answer(self._publish(document))

    async def push(self, document: Document) -> int:
        """Store it as the newest of all, and tell of it; returns how many have listened."""
        return await _answer(self._push(document))

    async def news(self) -> AsyncGenerator[bool]:
        """False when listening has begun, so that nothing is missed from there on, and True for
        each document after that. Ends with `StoreUnavailable`.
        """
        async with self._client.pubsub() as pubsub:
            await _answer(pubsub.subscribe(self._name))
            async with aclosing(_messages(pubsub)) as messages:
                async for kind in messages:
                    yield kind == "message"

    async def _publish(self, document: Document) -> bool:
        async with self._client.pipeline(transaction=True) as pipe:
            await pipe.watch(self._name)
            there = _kept(await pipe.get(self._name))
            if there is not None and (
                there.toml == document.text or there.written_ns >= document.written_ns
            ):
                return False
            try:
                await self._write(pipe, document)
            except WatchError:
                # Somebody else was a moment earlier, and everybody hears of that one.
                return False
            return True

    async def _push(self, document: Document) -> int:
        async with self._client.pipeline(transaction=True) as pipe:
            there = _kept(await self._client.get(self._name))
            # Clocks differ, and whoever pushes means it.
            least_ns = 0 if there is None else there.written_ns + 1
            written_ns = max(document.written_ns, least_ns)
            newest = Document(written_ns, document.text, document.origin)
            return await self._write(pipe, newest)

    async def _write(self, pipe: Any, document: Document) -> int:
        text = msgspec.json.encode(_Kept(document.written_ns, document.text))
        pipe.multi()
        pipe.set(self._name, text)
        pipe.publish(self._name, str(document.written_ns))
        return int((await pipe.execute())[1])


async def _messages(pubsub: PubSub) -> AsyncGenerator[str]:
    asked = False
    while True:
        seconds = CALL_SECONDS if asked else PING_SECONDS
        message = await _answer(pubsub.get_message(timeout=seconds), seconds + CALL_SECONDS)
        if message is None and asked:
            raise StoreUnavailable("The channel of the configuration does not answer.")
        asked = message is None
        if message is None:
            await _answer(pubsub.ping())
        elif message["type"] in ("subscribe", "message"):
            yield message["type"]


async def _answer(call: Awaitable[T], seconds: float = CALL_SECONDS) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await call
    except (ValkeyError, OSError) as error:
        reason = scrubbed(str(error)) or type(error).__name__
        raise StoreUnavailable(f"Valkey does not answer: {reason}") from error


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
    when = written.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Document(kept.written_ns, kept.toml, f"{name} of {when}")
