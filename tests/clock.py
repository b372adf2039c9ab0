"""A clock that only a test moves."""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1_000_000_000


@dataclass
class Clock:
    """Gives nanoseconds, the same ones until it is told otherwise."""

    now_ns: int = SECOND

    def __call__(self) -> int:
        return self.now_ns

    def pass_seconds(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)
