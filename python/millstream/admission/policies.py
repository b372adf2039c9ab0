"""What may be used: rates, windows and the estimate that is reserved before the cost is known."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from millstream._core import Quota
from millstream.errors import ConfigError

KIBIBYTE = 1024
NANOSECONDS_PER_MILLISECOND = 1_000_000
NANOSECONDS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RequestRate:
    """Requests per second, with a bucket of ``burst``: any W seconds see at most
    ``burst + per_second * W``. A rate of 0 refuses everything.
    """

    per_second: float | Fraction
    burst: int

    @property
    def fraction(self) -> Fraction:
        """Requests per second as the decimal number that was written, not its binary neighbour."""
        rate = self.per_second
        return rate if isinstance(rate, Fraction) else Fraction(str(rate))


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """At most ``limit`` tokens in any window of ``window_ms`` milliseconds."""

    limit: int
    window_ms: int


@dataclass(frozen=True, slots=True)
class BytesInFlight:
    """Memory of open streams: ``limit`` of all, ``per_stream`` of one, in bytes."""

    limit: int
    per_stream: int = 10 << 20

    @property
    def kibibytes(self) -> int:
        """The limit in whole KiB, in which it is counted."""
        return self.limit // KIBIBYTE


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How many requests may wait for a scope's limits, and each for how long."""

    max_waiting: int = 100
    deadline_seconds: float = 10.0

    @property
    def deadline_ns(self) -> int:
        """The same in nanoseconds."""
        return int(self.deadline_seconds * NANOSECONDS_PER_SECOND)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one scope; None is no limit. ``concurrency`` counts open streams.

    False in a condition if nothing is limited.
    """

    requests: RequestRate | None = None
    tokens: TokenWindow | None = None
    concurrency: int | None = None
    bytes_in_flight: BytesInFlight | None = None
    queue: QueuePolicy | None = None

    def __bool__(self) -> bool:
        dimensions = (self.requests, self.tokens, self.concurrency, self.bytes_in_flight)
        return any(dimension is not None for dimension in dimensions)

    def quota(self) -> Quota:
        """The same for the limiter; ConfigError if a number is out of range."""
        rate = None if self.requests is None else self.requests.fraction
        in_flight = self.bytes_in_flight
        try:
            return Quota(
                rate=None if rate is None else rate.numerator,
                period_ns=(1 if rate is None else rate.denominator) * NANOSECONDS_PER_SECOND,
                burst=None if self.requests is None else self.requests.burst,
                tokens=None if self.tokens is None else self.tokens.limit,
                window_ns=None if self.tokens is None else self._window_ns(self.tokens),
                concurrency=self.concurrency,
                kibibytes=None if in_flight is None else in_flight.kibibytes,
            )
        except (OverflowError, ValueError) as error:
            raise ConfigError(f"limits: {error}") from error

    @staticmethod
    def _window_ns(tokens: TokenWindow) -> int:
        return tokens.window_ms * NANOSECONDS_PER_MILLISECOND


def estimated_cost(prompt_tokens: int, max_tokens: int, choices: int = 1) -> int:
    """Tokens to reserve: the prompt once, and ``max_tokens`` for each choice."""
    return prompt_tokens + max_tokens * choices
