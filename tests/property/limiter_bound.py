"""The ledger of what a limiter charged, from which its published bound is checked.

The bound, for a key with a limit of ``L`` tokens in any window ``W``:

- *Admission*: at the instant of every admission, the tokens charged in the window that ends there,
  the admitted reservation and all debt included, are at most ``L``.
- *Any window*: the tokens charged in any window are at most ``L`` plus the over-runs (actual less
  reserved tokens, where positive) that were settled after the last admission of that window.

A reservation is charged when it is admitted; what it did not use is taken off that charge; an
over-run is charged when it is settled. So nothing above ``L`` is ever admitted: what exceeds it is
the error of estimates of streams that were already running, and the next admission waits until it
is paid. When one stream over-runs between two admissions that is one settled estimate error; when
none does, because prompts are counted and ``max_tokens`` is enforced, it is ``L`` itself.

A window is a stretch in which the clock moves ahead by less than ``W``: a step back counts for
nothing, and every step ahead counts as time, as nothing tells it from waiting. With a clock that is
never set this is any window; with one that is set back and right again, that step does not count as
waiting in the long run: `test_a_clock_set_back_and_right_gives_no_more_than_true_time`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Charge:
    """Tokens charged at a time."""

    at_ns: int
    tokens: int


@dataclass(slots=True)
class Ledger:
    """What one key was charged, in order of the clock's movement."""

    limit: int
    window_ns: int
    recent: deque[Charge] = field(default_factory=deque)
    overrun: int = 0
    """Over-runs settled since the last admission."""
    worst: int = 0
    """The most above the limit that any window was charged."""
    admitted: int = 0

    def admit(self, tokens: int, at_ns: int) -> Charge:
        """Books an admission; AssertionError if it does not fit beside what the window holds."""
        charge = self._charge(tokens, at_ns)
        self.overrun = 0
        self.admitted += tokens
        assert self.charged(at_ns) <= self.limit
        return charge

    def settle(self, charge: Charge, actual: int, at_ns: int) -> None:
        """Books what an admission turned out to cost; AssertionError if the bound breaks."""
        excess = actual - charge.tokens
        if excess <= 0:
            charge.tokens = actual
            return
        self._charge(excess, at_ns)
        self.overrun += excess
        charged = self.charged(at_ns)
        self.worst = max(self.worst, charged - self.limit)
        assert charged <= self.limit + self.overrun

    def charged(self, at_ns: int) -> int:
        """Tokens charged in the window that ends at ``at_ns``."""
        while self.recent and at_ns - self.recent[0].at_ns >= self.window_ns:
            self.recent.popleft()
        return sum(charge.tokens for charge in self.recent)

    def _charge(self, tokens: int, at_ns: int) -> Charge:
        charge = Charge(at_ns, tokens)
        self.recent.append(charge)
        return charge
