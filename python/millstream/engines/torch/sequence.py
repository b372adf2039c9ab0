"""One choice of one request, on its way from waiting to finished."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum, auto

from millstream.engines.torch.pages import PageKey, page_key
from millstream.types import SamplingParams


class Phase(Enum):
    """Where a sequence is."""

    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(eq=False, slots=True)
class Request:
    """What a worker asked for: ``params.n`` sequences over one prompt."""

    key: Hashable
    """Names the request to whoever added it."""
    prompt: list[int]
    params: SamplingParams
    seed: int
    """The request's own seed, or one drawn for it."""
    choices: list[Sequence] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether every choice has ended."""
        return all(choice.phase is Phase.FINISHED for choice in self.choices)

    @property
    def completion_tokens(self) -> int:
        """Tokens generated so far, over all choices."""
        return sum(len(choice.output) for choice in self.choices)


@dataclass(eq=False, slots=True)
class Sequence:
    """Tokens, pages and progress of one choice.

    ``num_cached_tokens`` counts tokens whose keys and values are in pages once every launched
    step has run; ``in_flight`` is 1 while a token has been sampled whose id the host has not yet
    read, so that it exists only on the device.
    """

    request: Request
    choice: int
    arrival: int
    """Place in the order in which sequences came."""
    max_length: int
    """Prompt and output together never grow beyond this."""
    phase: Phase = Phase.WAITING
    slot: int = -1
    """Row of the device-side state; -1 when it has none."""
    output: list[int] = field(default_factory=list)
    block_table: list[int] = field(default_factory=list)
    num_cached_tokens: int = 0
    prefill_target: int = 0
    """Tokens to compute before the next one is sampled; set at admission."""
    in_flight: int = 0
    page_keys: list[PageKey] = field(default_factory=list)
    num_registered_pages: int = 0
    expected_pages: int = 0
    """Pages that admission has set aside for the whole sequence."""

    @property
    def num_known_tokens(self) -> int:
        """Tokens whose ids the host knows."""
        return len(self.request.prompt) + len(self.output)

    @property
    def num_tokens(self) -> int:
        """Tokens including the one in flight."""
        return self.num_known_tokens + self.in_flight

    @property
    def prefilling(self) -> bool:
        """Whether known tokens are still to be computed before one can be sampled."""
        return self.num_cached_tokens < self.prefill_target

    @property
    def decoding(self) -> bool:
        """Whether the next step can compute the sequence's last token and sample another."""
        return not self.prefilling and not self.full

    @property
    def full(self) -> bool:
        """Whether no further token may be sampled."""
        return self.num_tokens >= self.max_length

    @property
    def complete(self) -> bool:
        """Whether the host knows the last token that may be sampled."""
        return self.num_known_tokens >= self.max_length

    @property
    def seed(self) -> int:
        """The seed of this choice: the request's, moved on by the index."""
        return self.request.seed + self.choice

    def admit(self, shared: list[int], own: list[int], expected: int, page_size: int) -> None:
        """Begin to run on ``shared`` pages, which are full and computed, and ``own`` ones."""
        self.phase = Phase.RUNNING
        self.block_table = shared + own
        self.num_cached_tokens = len(shared) * page_size
        self.num_registered_pages = len(shared)
        self.prefill_target = self.num_known_tokens
        self.expected_pages = expected

    def leave(self, phase: Phase) -> None:
        """Stop running, with neither slot nor pages."""
        self.phase = phase
        self.slot = -1
        self.block_table = []
        self.num_cached_tokens = self.num_registered_pages = self.prefill_target = 0

    def tokens(self, start: int, end: int) -> list[int]:
        """Known token ids from ``start`` to ``end``."""
        prompt = self.request.prompt
        if end <= len(prompt):
            return prompt[start:end]
        return prompt[start:] + self.output[max(start - len(prompt), 0) : end - len(prompt)]

    def keys(self, pages: int, page_size: int) -> list[PageKey]:
        """The keys of the first ``pages`` pages, all full of known tokens."""
        while len(self.page_keys) < pages:
            start = len(self.page_keys) * page_size
            parent = self.page_keys[-1] if self.page_keys else b""
            self.page_keys.append(page_key(parent, self.tokens(start, start + page_size)))
        return self.page_keys[:pages]
