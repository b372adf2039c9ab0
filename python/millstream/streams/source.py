"""What a response asks of the stream that it delivers."""

from __future__ import annotations

from typing import Protocol


class StreamSource(Protocol):
    """Whoever owns a stream's log; `millstream.streams.stream.Stream` is the server's own."""

    @property
    def outcome(self) -> str | None:
        """How the stream ended (`millstream.Outcome`), None while it runs.

        A body whose outcome is neither ``completed`` nor ``length`` is cut.
        """
        ...

    def attach(self) -> None:
        """One more reader follows."""
        ...

    def detach(self) -> None:
        """A reader has left: it has read to the end, or its client is gone."""
        ...

    def mark_active(self) -> None:
        """The first record is on its way to a client; called again with every later one."""
        ...
