"""What a store tells about itself; `millstream.telemetry.metrics.Metrics` listens."""

from __future__ import annotations

from typing import Literal, Protocol

Operation = Literal["write", "read", "beat", "find", "cancel", "claim", "discard"]
"""What the store was about when something outside failed."""


class StoreObserver(Protocol):
    """Counts; nothing here is called per token."""

    def store_up(self, up: bool) -> None:
        """Whether the store answers."""
        ...

    def store_error(self, operation: Operation) -> None:
        """The store did not answer, or refused."""
        ...

    def store_written(self, entries: int, size_bytes: int) -> None:
        """So many entries of stream logs have been stored."""
        ...

    def store_retained(self, streams: int, size_bytes: int) -> None:
        """What this worker's memory keeps of ended streams."""
        ...

    def store_sealed(self, route: str, model: str, outcome: str) -> None:
        """A stream, or one of its branches, was ended in its dead producer's stead."""
        ...


class Unobserved:
    """An observer for a store that nobody watches."""

    def store_up(self, up: bool) -> None:
        """Forget it."""

    def store_error(self, operation: Operation) -> None:
        """Forget it."""

    def store_written(self, entries: int, size_bytes: int) -> None:
        """Forget it."""

    def store_retained(self, streams: int, size_bytes: int) -> None:
        """Forget it."""

    def store_sealed(self, route: str, model: str, outcome: str) -> None:
        """Forget it."""
