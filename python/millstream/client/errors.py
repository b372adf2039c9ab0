"""What can go wrong while a stream is read.

ClientError
├── RequestRefused       the server said no, with a status and an error object
│   └── StreamNotFound   no such stream, or no longer
├── ConnectionLost       no attempt brought anything new
├── DeadlineExceeded     the read took longer than it may
├── IntegrityError       what came is not what the server wrote, again and again
├── StreamGap            the server no longer has what comes next
└── StreamFailed         the stream ended, and not well

All are raised after the text that came before them has been given out.
"""

from __future__ import annotations

from millstream.errors import MillstreamError
from millstream.types import Failure, Outcome


class ClientError(MillstreamError):
    """Base of everything that a read of a stream raises on purpose."""

    code = "client_error"


class RequestRefused(ClientError):
    """The server answered with ``status``; ``failure`` is its error object, if it sent one."""

    code = "request_refused"

    def __init__(self, status: int, message: str, failure: Failure | None = None) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.failure = failure


class StreamNotFound(RequestRefused):
    """The stream does not exist, belongs to somebody else, or is no longer kept."""

    code = "stream_not_found"


class ConnectionLost(ClientError):
    """``attempts`` connections in a row brought nothing new; the cause is the last failure."""

    code = "connection_lost"

    def __init__(self, attempts: int, reason: str) -> None:
        super().__init__(f"gave up after {attempts} attempts without anything new: {reason}")
        self.attempts = attempts


class DeadlineExceeded(ClientError):
    """The read took longer than ``seconds``."""

    code = "deadline_exceeded"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the stream did not end within {seconds:g} s")
        self.seconds = seconds


class IntegrityError(ClientError):
    """What came is not what the server wrote: lost, doubled, swapped or damaged.

    ``last_event_id`` is that of the last record that could be trusted.
    """

    code = "integrity_error"

    def __init__(self, reason: str, last_event_id: str | None = None) -> None:
        super().__init__(f"{reason} (after event {last_event_id})" if last_event_id else reason)
        self.reason = reason
        self.last_event_id = last_event_id


class StreamGap(ClientError):
    """Records ``first`` to ``last`` are lost: the server keeps ``oldest`` to ``latest``."""

    code = "stream_gap"

    def __init__(self, first: int, last: int, oldest: int, latest: int) -> None:
        super().__init__(
            f"records {first} to {last} are no longer kept, only {oldest} to {latest}"
            "; on_gap='accept' goes on with the text so far"
        )
        self.first = first
        self.last = last
        self.oldest = oldest
        self.latest = latest


class StreamFailed(ClientError):
    """The stream ended with an ``outcome`` that is no success; ``error`` says why, if known."""

    code = "stream_failed"

    def __init__(self, outcome: Outcome, error: Failure | None = None) -> None:
        super().__init__(f"{outcome}: {error.message}" if error else str(outcome))
        self.outcome = outcome
        self.error = error
