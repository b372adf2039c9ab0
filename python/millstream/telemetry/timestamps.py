"""Moments as logs, answers and messages write them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal


def rfc3339(
    moment: datetime, *, timespec: Literal["microseconds", "milliseconds"] = "microseconds"
) -> str:
    """A moment in UTC in the form of RFC 3339: ``2026-12-01T01:02:03.000004Z``."""
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
