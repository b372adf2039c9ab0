"""The one read of this process: every mirrored stream, and what others ask of us."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from millstream.errors import StoreUnavailable
from millstream.store.valkey import control
from millstream.store.valkey.keys import EntryId, control_key
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream.store.valkey.connection import Connection, Reply
    from millstream.store.valkey.control import Message
    from millstream.store.valkey.health import Health
    from millstream.store.valkey.mirrors import Mirrors
    from millstream.store.valkey.wire import Command

_log = get_logger(__name__)

BLOCK_MS = 2000
ENTRIES = 32
BREATH_SECONDS = 0.00002
"""A read of many streams waits so long for each of them, for the others to have something too."""
LONGEST_BREATH_SECONDS = 0.02


class Follower:
    """Reads level-triggered: from the last entry that each mirror has, whatever woke it.

    ``on_message`` is called with what another process asks.
    """

    def __init__(
        self,
        connection: Connection,
        health: Health,
        process: str,
        mirrors: Mirrors,
        *,
        on_message: Callable[[Message], None],
    ) -> None:
        self._connection = connection
        self._health = health
        self._process = process
        self._key = control_key(process)
        self._heard: EntryId | None = None
        self._mirrors = mirrors
        self._on_message = on_message

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            try:
                await self._listen()
                while True:
                    await self._read()
            except StoreUnavailable:
                await asyncio.sleep(max(self._health.pause_seconds, 0.01))

    async def _listen(self) -> None:
        """Have a control stream, and know where to read on in it."""
        (name,) = await self._connection.call("read", control.opened(self._process))
        opened = EntryId.parse(name)
        if self._heard is None or opened < self._heard:
            # The server is another one, or its clock was set back.
            self._heard = opened

    async def _read(self) -> None:
        mirrors = {mirror.key: mirror for mirror in self._mirrors}
        places = [bytes(mirror.last) for mirror in mirrors.values()]
        options = ("COUNT", ENTRIES, "BLOCK", BLOCK_MS, "STREAMS")
        heard = bytes(self._heard or EntryId(0, 0))
        command: Command = ("XREAD", *options, self._key, *mirrors, heard, *places)
        (reply,) = await self._connection.send("read", [command], wait_seconds=BLOCK_MS / 1000)
        if isinstance(reply, Exception):
            self._health.refused("read", reply)
            raise StoreUnavailable from reply
        for key, entries in reply or ():
            if key == self._key:
                self._hear(entries)
            elif (mirror := mirrors.get(key)) is not None:
                self._mirrors.take(mirror, entries)
        await asyncio.sleep(min(len(mirrors) * BREATH_SECONDS, LONGEST_BREATH_SECONDS))

    def _hear(self, entries: list[Reply]) -> None:
        for name, fields in entries:
            self._heard = EntryId.parse(name)
            try:
                message = control.parse(fields[1])
            except msgspec.DecodeError as error:
                _log.warning("message_unreadable", reason=str(error))
            else:
                self._on_message(message)
