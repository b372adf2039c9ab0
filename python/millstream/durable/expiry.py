"""When a stream ends by itself: after idle time, at an instant, or never."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from millstream.telemetry.timestamps import rfc3339

SECOND_NS = 1_000_000_000
_SECONDS = re.compile(r"0|[1-9][0-9]{0,11}")
_RFC_3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeToLive:
    """Ends ``seconds`` after the last read or write."""

    seconds: int


@dataclass(frozen=True, slots=True)
class ExpiresAt:
    """Ends at an instant, whatever happens before."""

    unix_ns: int


Expiry = TimeToLive | ExpiresAt | None


def parse_ttl(text: str) -> TimeToLive | None:
    """Whole seconds in plain decimal notation; None for anything else."""
    return TimeToLive(int(text)) if _SECONDS.fullmatch(text) else None


def parse_expires_at(text: str) -> ExpiresAt | None:
    """An RFC 3339 instant, precise to the microsecond; None for anything else."""
    if not _RFC_3339.fullmatch(text):
        return None
    try:
        since = datetime.fromisoformat(text.upper()).astimezone(UTC) - _EPOCH
    except (ValueError, OverflowError):  # no date, or one beyond year 9999 in UTC
        return None
    return ExpiresAt(since // timedelta(microseconds=1) * 1000)


def format_expires_at(expiry: ExpiresAt) -> str:
    """The instant in UTC, as RFC 3339."""
    instant = _EPOCH + timedelta(microseconds=expiry.unix_ns // 1000)
    return rfc3339(instant, timespec="milliseconds")


class Lifetime:
    """The deadline of one stream on the monotonic clock; the wall clock is read once."""

    def __init__(self, expiry: Expiry, *, now_ns: int, unix_ns: int) -> None:
        self.expiry = expiry
        self._touched_ns = now_ns
        self._fixed_ns = now_ns + expiry.unix_ns - unix_ns if isinstance(expiry, ExpiresAt) else 0

    def touch(self, now_ns: int) -> None:
        """The stream was read or written."""
        self._touched_ns = now_ns

    def deadline_ns(self) -> int | None:
        """When the stream ends unless it is touched; None for never."""
        if isinstance(self.expiry, TimeToLive):
            return self._touched_ns + self.expiry.seconds * SECOND_NS
        return self._fixed_ns if self.expiry else None
