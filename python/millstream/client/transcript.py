"""What a stream has said so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.client.events import (
    BranchDone,
    Checks,
    Done,
    Event,
    Failed,
    Finish,
    Missing,
    Snapshot,
    Token,
    Used,
    failure_of,
)
from millstream.types import Failure, Outcome, Settlement, Usage

Place = tuple[int, int]
"""Branch and choice; both are 0 in a stream of one model and one choice."""

SUCCESSES = frozenset({Outcome.COMPLETED, Outcome.LENGTH})


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one choice as it comes; ``tokens`` were merged into it, 0 if that is not known."""

    text: str
    tokens: int = 0
    choice: int = 0
    branch: int = 0

    @property
    def is_first(self) -> bool:
        """Whether it is of the first choice of the first branch."""
        return self.choice == self.branch == 0


@dataclass
class Transcript:
    """The texts of all choices, and what else is known of the stream."""

    finish_reasons: dict[Place, str] = field(default_factory=dict)
    usages: dict[int, Usage] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    outcome: Outcome | None = None
    error: Failure | None = None
    checks: Checks | None = None
    settled: Settlement | None = None
    gaps: list[Missing] = field(default_factory=list)
    _parts: dict[Place, list[str]] = field(default_factory=dict)

    def text(self, place: Place = (0, 0)) -> str:
        """All text of a choice."""
        parts = self._parts.get(place, [])
        if len(parts) > 1:
            parts[:] = ["".join(parts)]
        return parts[0] if parts else ""

    @property
    def texts(self) -> dict[Place, str]:
        """The text of every (branch, choice) that said anything."""
        return {place: self.text(place) for place in self._parts}

    @property
    def usage(self) -> Usage | None:
        """The cost of all branches."""
        if not self.usages:
            return None
        usages = self.usages.values()
        return Usage(
            sum(one.prompt_tokens for one in usages), sum(one.completion_tokens for one in usages)
        )

    def take(self, event: Event | None) -> Piece | None:
        """Note what an event says; a token event gives its text."""
        match event:
            case Token(choice, text, tokens, branch):
                self._parts.setdefault((branch, choice), []).append(text)
                return Piece(text, tokens, choice, branch)
            case Finish(choice, reason, branch):
                self.finish_reasons[branch, choice] = reason
            case Used(usage, branch):
                self.usages[branch] = usage
            case Failed(error):
                self.error = failure_of(error)
            case BranchDone(branch, outcome):
                self.outcomes[branch] = outcome
            case Done(outcome, checks, settled):
                self.outcome, self.checks, self.settled = outcome, checks, settled
        return None

    def replace(self, snapshot: Snapshot) -> Piece | None:
        """Go over to the text that the server still has; the piece is what is new of it.

        If its beginning is gone and goes beyond what was read, the text has a hole there.
        """
        place = snapshot.branch, snapshot.choice
        if snapshot.finish_reason is not None:
            self.finish_reasons[place] = snapshot.finish_reason
        had = len(self.text(place).encode())
        new = snapshot.text.encode()[max(0, had - snapshot.omitted_bytes) :]
        text = new.decode(errors="ignore")
        if not text:
            return None
        self._parts.setdefault(place, []).append(text)
        return Piece(text, 0, snapshot.choice, snapshot.branch)
