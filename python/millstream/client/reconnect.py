"""When to come back after a cut, and when to give up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from millstream.client.errors import ClientError, ConnectionLost, DeadlineExceeded

_MOST_DOUBLINGS = 64  # beyond any cap, and within a float


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """How long a read holds on to its stream.

    After the nth connection in a row that brought no new record comes a random wait of up to
    ``base_seconds * 2**n``, at most ``cap_seconds``, on top of the time that the server asked for
    with `retry:`; after ``max_attempts`` of them the read gives up. ``deadline_seconds`` bounds
    the whole read, ``max_restarts`` how often the same spot may turn out damaged.
    Nothing makes it wait longer than ``longest_wait_seconds`` besides: a refusal that asks for
    more is raised.
    """

    max_attempts: int = 8
    deadline_seconds: float | None = None
    base_seconds: float = 0.25
    cap_seconds: float = 10.0
    longest_wait_seconds: float = 60.0
    max_restarts: int = 2


class Backoff:
    """The waits of one read; ``random`` gives numbers from 0 to 1, times are monotonic seconds."""

    def __init__(self, policy: ReconnectPolicy, random: Callable[[], float]) -> None:
        self.policy = policy
        self._random = random
        self._failures = 0
        self._brought_something = False
        self._started: float | None = None
        self._retry_seconds = 0.0
        self._asked_seconds = 0.0
        self._last_failure: Exception | None = None

    def start(self, now: float) -> None:
        """Let the deadline run from the first attempt on."""
        if self._started is None:
            self._started = now

    def remaining(self, now: float) -> float | None:
        """Seconds left, None without a deadline; raises `DeadlineExceeded` when none are."""
        seconds = self.policy.deadline_seconds
        if seconds is None or self._started is None:
            return None
        left = self._started + seconds - now
        if left <= 0:
            raise DeadlineExceeded(seconds)
        return left

    def progressed(self) -> None:
        """Something new came: this attempt counts as a success, whatever becomes of it."""
        self._brought_something = True

    def retry_after(self, milliseconds: int) -> None:
        """The server names the wait before every reconnection from now on."""
        self._retry_seconds = milliseconds / 1000

    def failed(self, reason: Exception | None, asked_seconds: float = 0.0) -> None:
        """An attempt is over; the server may ask for a wait before the next one."""
        self._failures = 0 if self._brought_something else self._failures + 1
        self._brought_something = False
        self._last_failure = reason
        self._asked_seconds = asked_seconds

    def delay(self) -> float:
        """Seconds before the next attempt; raises the last refusal, or `ConnectionLost`."""
        if self._failures >= self.policy.max_attempts:
            self._give_up()
        longest = self.policy.longest_wait_seconds
        if self._asked_seconds > longest:
            self._give_up()
        least = max(min(self._retry_seconds, longest), self._asked_seconds)
        doublings = min(self._failures, _MOST_DOUBLINGS)
        window = min(self.policy.cap_seconds, self.policy.base_seconds * 2.0**doublings)
        return least + self._random() * window

    def _give_up(self) -> None:
        last = self._last_failure
        if isinstance(last, ClientError):
            raise last
        reason = (str(last) or type(last).__name__) if last else "the connection was cut"
        raise ConnectionLost(self._failures, reason) from last
