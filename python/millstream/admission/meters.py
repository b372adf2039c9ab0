"""What is left of the limits: a meter for each dimension of a scope, a snapshot of the tightest."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, Protocol

Dimension = Literal["requests", "tokens", "concurrency", "bytes"]

DIMENSIONS: Final[tuple[Dimension, ...]] = ("requests", "tokens", "concurrency", "bytes")
HELD: Final[frozenset[Dimension]] = frozenset({"concurrency", "bytes"})
"""Held as long as a lease is open. Nobody knows when these come back: streams end when they end."""


class Meter(Protocol):
    """The state of one dimension of one scope."""

    @property
    def scope(self) -> str:
        """The scope's name."""
        ...

    @property
    def limit(self) -> int:
        """The capacity: burst, tokens per window, open streams, KiB."""
        ...

    @property
    def remaining(self) -> int:
        """What is left of it, never below 0."""
        ...

    @property
    def reset_ns(self) -> int:
        """Nanoseconds until all of it is back; 0 where only the end of streams gives back."""
        ...


class Snapshot(Protocol):
    """The tightest scope of each dimension; None where nothing is limited."""

    @property
    def requests(self) -> Meter | None:
        """Requests."""
        ...

    @property
    def tokens(self) -> Meter | None:
        """Tokens."""
        ...

    @property
    def concurrency(self) -> Meter | None:
        """Open streams."""
        ...

    @property
    def bytes(self) -> Meter | None:
        """Memory of open streams, in KiB."""
        ...


class Reading(NamedTuple):
    """A `Meter` as it was."""

    scope: str
    limit: int
    remaining: int
    reset_ns: int


class Readings(NamedTuple):
    """A `Snapshot` of readings."""

    requests: Meter | None = None
    tokens: Meter | None = None
    concurrency: Meter | None = None
    bytes: Meter | None = None


NOTHING_LIMITED: Final = Readings()
