"""Puts a document in force, or says why it cannot be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from millstream.admission import sole_worker
from millstream.assembly.limits import limited
from millstream.errors import ConfigError
from millstream.telemetry.logging import get_logger
from millstream.telemetry.shared_files import metrics_directory

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from millstream.config import Document, LiveSettings, Loaded
    from millstream.config.live import Change

_log = get_logger(__name__)


class Adoption:
    """The one way to other settings; whoever takes it holds ``turn`` meanwhile.

    ``loaded`` is what runs, ``stack`` ends with the server.
    """

    def __init__(self, live: LiveSettings, loaded: Loaded, stack: AsyncExitStack) -> None:
        self.live = live
        self.turn = asyncio.Lock()
        self._loaded = loaded
        self._stack = stack
        # The worker knows to be alone if it had to.
        self._alone = live.current.limiter.kind != "memory" or limited(live.current)

    def in_force(self, document: Document) -> bool:
        """Whether it says what holds already."""
        holds = self._loaded.document
        return holds is not None and holds.text == document.text

    async def adopt(self, document: Document) -> bool:
        """Put its settings in force; False if they cannot be."""
        if self.in_force(document) and self.live.last_error is None:
            # The news of our own change, or of the same file at another worker.
            return True
        needed = self.live.restart_needed
        try:
            loaded, change, has_limits = await asyncio.to_thread(self._prepared, document)
            if has_limits:
                await self._be_alone()
            changed = self.live.replace(change, source=document.origin)
        except ConfigError as error:
            self.refuse(document.origin, error)
            return False
        except Exception as error:
            _log.error("config_failed", error=error, source=document.origin)
            self.refuse(document.origin, error)
            return False
        self._loaded = loaded
        if changed:
            _log.info("config_reloaded", revision=self.live.revision, source=document.origin)
        if self.live.restart_needed and self.live.restart_needed != needed:
            keys = ", ".join(self.live.restart_needed)
            _log.warning("config_needs_restart", keys=keys, source=document.origin)
        return True

    def refuse(self, source: str, error: Exception) -> None:
        """Say that what is there is not taken, and why."""
        reason = self.live.refuse(source, str(error) or type(error).__name__)
        _log.warning("config_refused", reason=reason, revision=self.live.revision)

    def _prepared(self, document: Document) -> tuple[Loaded, Change, bool]:
        """All that takes long, in a thread; raises `ConfigError`."""
        loaded = self._loaded.again(document)
        change = self.live.change(loaded.settings)
        return loaded, change, limited(change.settings)

    async def _be_alone(self) -> None:
        """Raises `ConfigError` if another worker would grant the same limits once more."""
        if not self._alone:
            await self._stack.enter_async_context(
                sole_worker(metrics_directory(), patience_seconds=0)
            )
            self._alone = True
