"""What a request asks of the limits."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.admission.base import Cost


@dataclass(frozen=True, slots=True)
class Demand:
    """What one branch of a stream may come to at most.

    ``prompt_tokens`` of the ``tokens`` are spent even if nothing is generated; ``kibibytes`` are
    held while it runs.
    """

    tenant: str
    model: str
    tokens: int
    prompt_tokens: int = 0
    kibibytes: int = 0

    @property
    def cost(self) -> Cost:
        """The same for a limiter."""
        return Cost(self.tokens, 1, self.prompt_tokens, self.kibibytes)
