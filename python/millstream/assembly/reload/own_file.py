"""Follows the configuration file of this instance."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from time import time_ns
from typing import TYPE_CHECKING

from millstream.config import Document
from millstream.config.sources import read_document
from millstream.config.watch import changes
from millstream.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from millstream.assembly.reload.adoption import Adoption
    from millstream.assembly.reload.precedence import Precedence
    from millstream.assembly.reload.shared_document import SharedDocument


class OwnFile:
    """Each change of the file holds as it comes, and ``shared`` is told of it.

    ``seen`` is what the file said when the server started.
    """

    def __init__(
        self,
        path: Path,
        seen: Document | None,
        adoption: Adoption,
        precedence: Precedence,
        shared: SharedDocument | None,
    ) -> None:
        self._path = path
        self._seen = seen
        self._adoption = adoption
        self._precedence = precedence
        self._shared = shared
        self._lost: str | None = None
        self._before_lost: str | None = None

    async def follow(self) -> None:
        """Until it is cancelled."""
        async with aclosing(changes(self._path)) as ticks:
            async for _ in ticks:
                async with self._adoption.turn:
                    await self._changed()

    async def _changed(self) -> None:
        try:
            document = await asyncio.to_thread(read_document, self._path)
        except ConfigError as error:
            self._lose(error)
            return
        self._find()
        if document != self._seen:
            self._seen = document
            await self._take(document)

    async def _take(self, document: Document) -> None:
        adoption, precedence = self._adoption, self._precedence
        if not document.text.strip():
            # Half written, most likely; and its tenants would all be gone.
            adoption.refuse(str(self._path), ConfigError("is empty"), "file")
        elif adoption.in_force(document):
            # Another worker of this file was faster, and has told of it. What has been pushed since
            # then may not have been heard of here: to tell again would bring this back.
            return
        elif precedence.superseded(document):
            adoption.supersede(document)
        elif await adoption.adopt(document, "file"):
            holds_since_ns = precedence.file_holds(time_ns())
            if self._shared is not None:
                await self._shared.tell(Document(holds_since_ns, document.text, document.origin))

    def _lose(self, error: ConfigError) -> None:
        """It cannot be read."""
        live = self._adoption.live
        if self._lost is None:
            self._before_lost = live.last_error
        self._adoption.refuse(str(self._path), error, "file")
        self._lost = live.last_error

    def _find(self) -> None:
        """It can be read again: if it is as it was, only that is no longer wrong."""
        live = self._adoption.live
        if self._lost is not None and live.last_error == self._lost:
            live.last_error = self._before_lost
        self._lost = None
