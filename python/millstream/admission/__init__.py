"""Admission: what a request may use, and the lease on what it uses."""

from __future__ import annotations

from millstream.admission.admission import Admission
from millstream.admission.base import Cost, Limiter, ScopedLimits
from millstream.admission.book import LimitBook
from millstream.admission.demand import Demand
from millstream.admission.leases import Lease, Refusal
from millstream.admission.memory import MemoryLimiter
from millstream.admission.meters import Dimension, Meter, Snapshot
from millstream.admission.policies import (
    KIBIBYTE,
    BytesInFlight,
    Limits,
    QueuePolicy,
    RequestRate,
    TokenWindow,
    estimated_cost,
)
from millstream.admission.together import undo_all
from millstream.admission.unlimited import UnlimitedLease

__all__ = [
    "KIBIBYTE",
    "Admission",
    "BytesInFlight",
    "Cost",
    "Demand",
    "Dimension",
    "Lease",
    "LimitBook",
    "Limiter",
    "Limits",
    "MemoryLimiter",
    "Meter",
    "QueuePolicy",
    "Refusal",
    "RequestRate",
    "ScopedLimits",
    "Snapshot",
    "TokenWindow",
    "UnlimitedLease",
    "estimated_cost",
    "undo_all",
]
