"""A process that shares limits: ``python -m tests.integration.valkey_limiter_worker URL SECONDS``.

Reserves from the scopes of `SCOPES` that the lines of its input name, and says how that went; a
lease lives for so many seconds.
"""

from __future__ import annotations

import asyncio
import sys
from fractions import Fraction

from millstream.admission import BytesInFlight, Cost, Lease, Limits, RequestRate, ScopedLimits
from millstream.admission.policies import TokenWindow
from tests.integration.valkey_limiters import limiter_on

SCOPES = {
    "five": ScopedLimits("global", Limits(RequestRate(Fraction(5, 60), 5))),
    "held": ScopedLimits(
        "tenant:t",
        Limits(
            tokens=TokenWindow(1000, 3_600_000),
            concurrency=3,
            bytes_in_flight=BytesInFlight(12 * 1024),
        ),
    ),
}
COST = Cost(100, kibibytes=4)


async def work(url: str, lease_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    leases: list[Lease] = []
    async with limiter_on(url, lease_seconds=lease_seconds) as limiter:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            found = await limiter.reserve((SCOPES[line.strip()],), COST)
            if isinstance(found, Lease):
                leases.append(found)
            print("admitted" if found else "refused", flush=True)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], float(sys.argv[2])))
