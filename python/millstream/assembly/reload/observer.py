"""What is told of configurations that were loaded again."""

from __future__ import annotations

from typing import Literal, Protocol

ReloadSource = Literal["file", "document"]
"""Its own file, or the document that instances share."""

ReloadResult = Literal["applied", "unchanged", "refused", "superseded"]
"""``unchanged`` is in force already; ``superseded`` came after something newer."""


class ReloadObserver(Protocol):
    """Hears of each configuration that a worker has looked at since its start."""

    def config_reloaded(self, source: ReloadSource, result: ReloadResult) -> None:
        """A configuration was looked at."""
        ...

    def config_revision(self, revision: int) -> None:
        """The number of the settings in force."""
        ...


class Unheard:
    """An observer where nobody counts."""

    def config_reloaded(self, source: ReloadSource, result: ReloadResult) -> None:
        """Forget it."""

    def config_revision(self, revision: int) -> None:
        """Forget it."""
