"""No window sees more than its limit and one settled estimate error, whatever clients do."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from millstream.admission import (
    Admission,
    BytesInFlight,
    LimitBook,
    Limits,
    MemoryLimiter,
    QueuePolicy,
    RequestRate,
    TokenWindow,
)
from tests.clock import SECOND
from tests.reference.bound import Crowd, Ledger, RecordingLimiter
from tests.unit.admission.parts import TurnedClock, left, settle

ERROR = 500
WINDOW_MS = 1_000
HOURS = 8 * 3600 * SECOND
LIMIT = {"global": 6_000, "tenant:t0": 2_500, "model:m": 4_000}
RATE, BURST, PLACES, KIB = 40, 20, 30, 1_000


@dataclass
class JumpingClock:
    """A clock that is set forward by seconds and back by hours while time passes.

    To set it forward is as if time had passed, which no limiter can tell from it; the hours that it
    is set back are no time.
    """

    random: Random
    turned: TurnedClock = field(default_factory=lambda: TurnedClock(now_ns=1_000 * HOURS))
    back_ns: int = 0

    def passed(self) -> int:
        """Time that has passed."""
        return self.turned.now_ns + self.back_ns

    async def advance(self) -> None:
        chance = self.random.random()
        if chance < 0.02:
            self.turned.now_ns += 3 * SECOND
        elif chance < 0.04:
            self.back_ns += HOURS
            self.turned.now_ns -= HOURS
        await self.turned.turn(self.random.choice((0.0, 0.001, 0.02, 0.06)))


def book(queue: QueuePolicy | None) -> LimitBook:
    def limits(scope: str) -> Limits:
        return Limits(tokens=TokenWindow(LIMIT[scope], WINDOW_MS), queue=queue)

    return LimitBook(
        Limits(
            RequestRate(RATE, BURST),
            TokenWindow(LIMIT["global"], WINDOW_MS),
            PLACES,
            BytesInFlight(KIB * 1024),
            queue,
        ),
        tenants={"t0": limits("tenant:t0")},
        models={"m": limits("model:m")},
    )


# litellm#18730: five concurrent calls spent 663 of 100 tokens.
@pytest.mark.parametrize("error", [0, ERROR])
@pytest.mark.parametrize("queue", [None, QueuePolicy(40, 5)], ids=["refused", "waiting"])
@pytest.mark.parametrize("seed", range(4))
async def test_64_clients_that_cancel_while_the_clock_jumps(
    seed: int, queue: QueuePolicy | None, error: int
) -> None:
    random = Random(seed)
    clock = JumpingClock(random)
    ledger = Ledger(clock.passed)
    limiter, limits = MemoryLimiter(clock=clock.turned, lease_ttl_ns=10 * HOURS), book(queue)
    admission = Admission(
        RecordingLimiter(limiter, ledger), limits, clock=clock.turned, scheduler=clock.turned
    )
    crowd = Crowd(admission, random, error=error)
    await crowd.drive(400, clock.advance)
    await crowd.go_home()
    await settle()

    window_ns = WINDOW_MS * 1_000_000
    seen = {scope: ledger.most_tokens(window_ns, scope) for scope in LIMIT}
    assert all(seen[scope] <= LIMIT[scope] + error for scope in LIMIT), seen
    # The limit has bitten: else nothing would be shown.
    assert seen["global"] > 0.8 * LIMIT["global"], seen
    assert ledger.most_requests(window_ns, "global") <= BURST + RATE
    assert ledger.most_open <= PLACES
    assert ledger.most_kibibytes <= KIB
    assert (len(ledger.open), admission.waiting, clock.turned.pending) == (0, 0, 0)
    # litellm#27955: places leaked on cancel.
    _, _, places, kibibytes = left(limiter.try_peek(limits.scopes("t1", "n")))
    assert (places, kibibytes) == (PLACES, KIB)
