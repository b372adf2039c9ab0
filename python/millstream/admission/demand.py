"""What a request asks of the limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.admission.base import Cost


@dataclass(frozen=True, slots=True)
class Demand:
    """What one branch of a stream may come to at most.

    ``prompt_tokens`` of the ``tokens`` are spent even if nothing is generated; ``kibibytes`` are
    held while it runs. With ``least_tokens``, which count the prompt, it takes fewer ``tokens`` if
    the limits have not so many left when its turn comes.
    """

    tenant: str
    model: str
    tokens: int
    prompt_tokens: int = 0
    kibibytes: int = 0
    least_tokens: int | None = None

    @property
    def cost(self) -> Cost:
        """The same for a limiter."""
        return Cost(self.tokens, 1, self.prompt_tokens, self.kibibytes)

    def cut_to(self, tokens: int) -> Demand:
        """The same for so many tokens at most, or for the least that it takes."""
        least = self.tokens if self.least_tokens is None else self.least_tokens
        taken = min(self.tokens, max(tokens, least))
        return self if taken == self.tokens else replace(self, tokens=taken)
