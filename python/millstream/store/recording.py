"""A stream as its readers see it, whoever produces it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.types import Outcome, Settlement

if TYPE_CHECKING:
    from millstream._core import Log
    from millstream.store.descriptor import Descriptor


class Recording:
    """A descriptor and the log that belongs to it: finished, or fed from elsewhere.

    ``readers`` counts those who follow it now.
    """

    def __init__(self, descriptor: Descriptor, log: Log) -> None:
        self.descriptor = descriptor
        self.log = log
        self.readers = 0

    @property
    def id(self) -> str:
        """The stream's id."""
        return self.descriptor.id

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended, None while it runs."""
        text = self.log.outcome
        return None if text is None else Outcome(text)

    @property
    def settlement(self) -> Settlement | None:
        """What it was charged in the end; None while it runs, and if nobody could say."""
        text = self.log.settlement
        return None if text is None else Settlement.from_json(text)

    def attach(self) -> None:
        """One more reader follows."""
        self.readers += 1

    def detach(self) -> None:
        """A reader has left."""
        self.readers -= 1

    def mark_active(self) -> None:
        """Nothing to do: the producer knows by itself."""
