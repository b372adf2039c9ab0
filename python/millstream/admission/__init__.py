"""Admission: what a request may use, and the lease on what it uses."""

from __future__ import annotations

from millstream.admission.leases import Lease, Refusal
from millstream.admission.memory import MemoryLimiter
from millstream.admission.policies import (
    Limits,
    RequestRate,
    TokenWindow,
    check_workers,
    estimated_cost,
)

__all__ = [
    "Lease",
    "Limits",
    "MemoryLimiter",
    "Refusal",
    "RequestRate",
    "TokenWindow",
    "check_workers",
    "estimated_cost",
]
