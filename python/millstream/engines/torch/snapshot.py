"""What the step loop tells other threads about itself."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.engines.torch.protocol import Stats


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

    def stats(self, token: int, now_ns: int) -> Stats:
        """The answer to one `StatsRequest`."""
        return Stats(
            token=token,
            running=self.running,
            waiting=self.waiting,
            pages_used=self.pages_used,
            pages_total=self.pages_total,
            steps=self.steps,
            tokens_generated=self.tokens_generated,
            requests_aborted=self.requests_aborted,
            last_step_ns=self.last_step_ns,
            idle_ns=max(0, now_ns - self.progress_ns),
        )
