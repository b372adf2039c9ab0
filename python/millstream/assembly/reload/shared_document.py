"""Follows the document that instances share, and tells them of changes of the own file."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from millstream.errors import ConfigError, StoreUnavailable
from millstream.telemetry.logging import get_logger

if TYPE_CHECKING:
    from millstream.assembly.reload.adoption import Adoption
    from millstream.assembly.reload.precedence import Precedence
    from millstream.config import Document
    from millstream.store.valkey.documents import Documents

_log = get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0


class SharedDocument:
    """Takes what there is news of, and what was written while the connection was lost."""

    def __init__(self, documents: Documents, adoption: Adoption, precedence: Precedence) -> None:
        self.up_to_date = asyncio.Event()
        """Set when the document has been read, or cannot be read now."""
        self._documents = documents
        self._adoption = adoption
        self._precedence = precedence
        self._untold: Document | None = None
        self._connected: bool | None = None

    async def follow(self) -> None:
        """Until it is cancelled."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                async with aclosing(self._documents.news()) as news:
                    async for told in news:
                        async with self._adoption.turn:
                            await self._read(told=told)
                        self._reached()
                        pause = FIRST_PAUSE_SECONDS
            except StoreUnavailable as error:
                self._lose(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def tell(self, document: Document) -> None:
        """Hand a change of the file to the others, later if they cannot be reached now."""
        self._untold = document
        try:
            await self._tell()
        except StoreUnavailable as error:
            _log.warning("config_not_published", reason=str(error))

    async def _tell(self) -> None:
        if self._untold is None:
            return
        if await self._documents.publish(self._untold):
            _log.info("config_published", source=self._untold.origin)
        self._untold = None

    async def _read(self, *, told: bool) -> None:
        await self._tell()
        try:
            document = await self._documents.read()
        except ConfigError as error:
            self._adoption.refuse("document", error, "document")
            return
        if document is None or not self._precedence.handle(document, told=told):
            return
        if await self._adoption.adopt(document, "document"):
            self._precedence.document_holds(document)

    def _reached(self) -> None:
        if self._connected is False:
            _log.info("config_channel_up")
        self._connected = True
        self.up_to_date.set()

    def _lose(self, error: StoreUnavailable) -> None:
        if self._connected is not False:
            _log.warning("config_channel_down", reason=str(error))
        self._connected = False
        self.up_to_date.set()
