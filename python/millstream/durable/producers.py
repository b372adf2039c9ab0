"""Idempotent producers: each append of a producer is taken once, and zombies are fenced off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from millstream.durable.refusals import Reason, Refusal

PRODUCER_BYTES = 256
"""What a known producer costs beside its id."""
_DAY_NS = 86_400 * 1_000_000_000
FORGET_NS = 7 * _DAY_NS
"""Silence after which a producer is forgotten, within a day; it then counts as new."""


@dataclass(frozen=True, slots=True)
class ProducerMark:
    """Which append of which producer: ``sequence`` starts at 0 in every ``epoch``."""

    id: str
    epoch: int
    sequence: int


@dataclass(slots=True)
class _Known:
    epoch: int
    sequence: int
    seen_ns: int


Verdict = Literal["new", "duplicate"] | Refusal


class Producers:
    """What one stream knows of its producers."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._looked_ns: int | None = None

    def judge(self, mark: ProducerMark) -> Verdict:
        """Whether this append is the next one, one that was taken before, or neither."""
        known = self._known.get(mark.id)
        if known is None:
            return "new" if mark.sequence == 0 else _gap(0, mark)
        if mark.epoch < known.epoch:
            message = f"The producer's epoch is {known.epoch}; epoch {mark.epoch} is over."
            return Refusal(Reason.PRODUCER_EPOCH, message, epoch=known.epoch)
        if mark.epoch > known.epoch:
            return "new" if mark.sequence == 0 else _late_start(mark)
        if mark.sequence <= known.sequence:
            return "duplicate"
        following = known.sequence + 1
        return "new" if mark.sequence == following else _gap(following, mark)

    def cost(self, mark: ProducerMark) -> int:
        """What remembering this producer would occupy in addition, in bytes."""
        return 0 if mark.id in self._known else PRODUCER_BYTES + len(mark.id)

    def accept(self, mark: ProducerMark, now_ns: int) -> None:
        """Remember an append that was judged new."""
        self._known[mark.id] = _Known(mark.epoch, mark.sequence, now_ns)

    def highest(self, mark: ProducerMark) -> int:
        """The highest sequence taken from this producer; its own if the producer is forgotten."""
        known = self._known.get(mark.id)
        return mark.sequence if known is None else known.sequence

    def forget(self, now_ns: int) -> int:
        """Drop those silent for seven days; returns the bytes that this frees. Looks once a day."""
        if self._looked_ns is not None and now_ns - self._looked_ns < _DAY_NS:
            return 0
        self._looked_ns = now_ns
        silent = [name for name, known in self._known.items() if now_ns - known.seen_ns > FORGET_NS]
        for name in silent:
            del self._known[name]
        return sum(PRODUCER_BYTES + len(name) for name in silent)


def _gap(expected: int, mark: ProducerMark) -> Refusal:
    message = f"The producer's next sequence is {expected}, not {mark.sequence}."
    return Refusal(Reason.PRODUCER_GAP, message, expected=expected, received=mark.sequence)


def _late_start(mark: ProducerMark) -> Refusal:
    message = f"Epoch {mark.epoch} must begin with sequence 0, not {mark.sequence}."
    return Refusal(Reason.PRODUCER_START, message)
