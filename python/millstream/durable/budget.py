"""The bytes that all streams share."""

from __future__ import annotations


class Budget:
    """Counts what is held; never lets it exceed ``max_bytes``."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used = 0

    def take(self, amount: int) -> bool:
        """Count ``amount`` more, if it fits."""
        if self.used + amount > self.max_bytes:
            return False
        self.used += amount
        return True

    def give(self, amount: int) -> None:
        """Count ``amount`` less."""
        self.used -= amount
