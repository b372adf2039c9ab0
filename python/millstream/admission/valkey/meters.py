"""What the script tells of the tightest scopes."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.admission.meters import Reading, Readings
from millstream.admission.shared_quota import UNIT_NS


def snapshot_of(meters: Sequence[int], names: Sequence[str]) -> Readings:
    """Four numbers a dimension: the scope counted from 1 (0 is no limit), limit, left, reset."""
    return Readings(*(_meter(meters[at : at + 4], names) for at in range(0, 16, 4)))


def _meter(meter: Sequence[int], names: Sequence[str]) -> Reading | None:
    scope, limit, remaining, reset = meter
    if scope == 0:
        return None
    return Reading(names[scope - 1], limit, remaining, reset * UNIT_NS)
