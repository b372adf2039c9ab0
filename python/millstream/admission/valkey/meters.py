"""What the script tells of the tightest scopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from millstream.admission.leases import Dimension
from millstream.admission.shared_quota import UNIT_NS

DIMENSIONS: Final[tuple[Dimension, ...]] = ("requests", "tokens", "concurrency", "bytes")


class ValkeyMeter(NamedTuple):
    """The state of one dimension of one scope; see `millstream.admission.Meter`."""

    scope: str
    limit: int
    remaining: int
    reset_ns: int


class ValkeySnapshot(NamedTuple):
    """The tightest scope of each dimension; None where nothing is limited."""

    requests: ValkeyMeter | None
    tokens: ValkeyMeter | None
    concurrency: ValkeyMeter | None
    bytes: ValkeyMeter | None


def snapshot_of(meters: Sequence[int], names: Sequence[str]) -> ValkeySnapshot:
    """Four numbers a dimension: the scope counted from 1 (0 is no limit), limit, left, reset."""
    return ValkeySnapshot(*(_meter(meters[at : at + 4], names) for at in range(0, 16, 4)))


def _meter(meter: Sequence[int], names: Sequence[str]) -> ValkeyMeter | None:
    scope, limit, remaining, reset = meter
    if scope == 0:
        return None
    return ValkeyMeter(names[scope - 1], limit, remaining, reset * UNIT_NS)
