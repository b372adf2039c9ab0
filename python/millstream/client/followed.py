"""What can be seen of a stream that is read, whether by a thread or on an event loop."""

from __future__ import annotations

from millstream.client.events import Checks, Missing
from millstream.client.follower import Follower
from millstream.client.transcript import Place
from millstream.types import Failure, Outcome, Settlement, Usage


class Followed:
    """The state of a read; all of it grows while the stream is iterated."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    @property
    def id(self) -> str | None:
        """The stream's id; None until the server has answered."""
        return self._follower.stream_id

    @property
    def text(self) -> str:
        """The text of the first choice so far."""
        return self._follower.transcript.text()

    @property
    def texts(self) -> dict[Place, str]:
        """The text so far of every (branch, choice)."""
        return self._follower.transcript.texts

    @property
    def finish_reasons(self) -> dict[Place, str]:
        """Why a (branch, choice) ended."""
        return self._follower.transcript.finish_reasons

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None while it goes on."""
        return self._follower.transcript.outcome

    @property
    def outcomes(self) -> dict[int, Outcome]:
        """How each branch ended, in a stream of several."""
        return self._follower.transcript.outcomes

    @property
    def error(self) -> Failure | None:
        """What went wrong, if the server said it."""
        return self._follower.transcript.error

    @property
    def usage(self) -> Usage | None:
        """What all branches cost."""
        return self._follower.transcript.usage

    @property
    def usages(self) -> dict[int, Usage]:
        """What each branch cost."""
        return self._follower.transcript.usages

    @property
    def checks(self) -> Checks | None:
        """The sum of the whole text as the server gave it at the end, once it has been checked."""
        return self._follower.transcript.checks

    @property
    def settled(self) -> Settlement | None:
        """What the stream was charged in the end, if its frames carry metadata and the server
        knows.
        """
        return self._follower.transcript.settled

    @property
    def gaps(self) -> list[Missing]:
        """Records that were filled in from the server's text, or are lost."""
        return self._follower.transcript.gaps

    @property
    def last_event_id(self) -> str | None:
        """Where another read can go on: `client.follow(stream.id, after=stream.last_event_id)`."""
        return self._follower.last_event_id

    @property
    def connections(self) -> int:
        """Connections that were tried."""
        return self._follower.connections

    @property
    def restarts(self) -> int:
        """How often something came that was not what the server wrote."""
        return self._follower.restarts

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} at {self.last_event_id}, {self.outcome}>"
