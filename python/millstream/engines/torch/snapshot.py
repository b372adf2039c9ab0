"""What the step loop tells other threads about itself."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from millstream.engines.base import EngineStats


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The scheduler between two steps, for other threads to read."""

    running: int = 0
    waiting: int = 0
    pages_used: int = 0
    pages_total: int = 0
    steps: int = 0
    tokens_generated: int = 0
    requests_aborted: int = 0
    last_step_ns: int = 0
    progress_ns: int = 0
    """Monotonic time at which the latest step ended, or at which an idle loop got work."""

    def stats(self, now_ns: int) -> EngineStats:
        """The same for a worker that asks at ``now_ns``, monotonic."""
        fields = asdict(self)
        idle_ns = max(0, now_ns - fields.pop("progress_ns"))
        return EngineStats(pid=os.getpid(), idle_ns=idle_ns, **fields)
