"""Admission: what a request may use, and the lease on what it uses."""

from __future__ import annotations

from millstream.admission.leases import Lease, Refusal
from millstream.admission.memory import MemoryLimiter
from millstream.admission.policies import (
    Limits,
    RequestRate,
    TokenWindow,
    estimated_cost,
)
from millstream.admission.sole_worker import sole_worker

__all__ = [
    "Lease",
    "Limits",
    "MemoryLimiter",
    "Refusal",
    "RequestRate",
    "TokenWindow",
    "estimated_cost",
    "sole_worker",
]
