"""Bugs that other limiters were reported for, on Valkey: the traces of `tests.reference`."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from millstream.admission import BytesInFlight, Cost, Limits, RequestRate, ScopedLimits, TokenWindow
from millstream.admission.costs import check_cost
from millstream.admission.shared_quota import UNIT_NS
from tests.integration.valkey_script import Refused as RefusedByScript
from tests.integration.valkey_script import ScriptLimiter, Taken
from tests.integration.valkey_server import ValkeyServer
from tests.reference.limiter_key import Quota
from tests.reference.limiter_reports import REPORTS
from tests.reference.limiter_traces import Answer, Call, Left, Refused, Trace, drive

MILLISECOND = 1_000_000
SECOND_NS = 1_000 * MILLISECOND


def limits_of(quota: Quota) -> Limits:
    rate = None if quota.rate is None else Fraction(quota.rate * SECOND_NS, quota.period_ns)
    window = quota.window_ns // MILLISECOND
    return Limits(
        requests=None if rate is None else RequestRate(rate, quota.burst),
        tokens=None if quota.tokens is None else TokenWindow(quota.tokens, window),
        concurrency=quota.concurrency,
        bytes_in_flight=None if quota.kibibytes is None else BytesInFlight(quota.kibibytes * 1024),
    )


class Performer:
    """Makes the calls of one trace; keeps the leases by their names."""

    def __init__(self, script: ScriptLimiter) -> None:
        self._script = script
        self._leases: dict[str, Taken] = {}

    def __call__(self, call: Call) -> Answer:
        self._script.now = call.now_ns // UNIT_NS
        scopes = [ScopedLimits(key, limits_of(quota)) for key, quota in call.scopes]
        if call.operation in ("reserve", "take"):
            return self._reserve(call, scopes)
        if call.operation == "peek":
            meters = self._script.peek(scopes)
            return Left(*(None if meter is None else meter.remaining for meter in meters))
        lease = self._leases[call.arguments["lease"]]
        if call.operation == "settle":
            return self._script.settle(lease, call.arguments["actual"])
        assert call.operation == "cancel"
        return self._script.cancel(lease, call.arguments["emitted"])

    def _reserve(self, call: Call, scopes: list[ScopedLimits]) -> Answer:
        asked = call.arguments
        cost = Cost(
            asked.get("tokens", 0),
            asked.get("requests", 1),
            asked.get("prompt", 0),
            asked.get("kibibytes", 0),
        )
        try:
            check(cost)
        except ValueError:
            return ValueError
        found = self._script.reserve(scopes, cost)
        if isinstance(found, RefusedByScript):
            return Refused(found.dimension, found.scope, found.permanent, found.wait * UNIT_NS)  # type: ignore[arg-type]
        if call.operation == "take":
            self._script.settle(found, cost.tokens)
        elif "lease" in asked:
            self._leases[asked["lease"]] = found
        return True


def check(cost: Cost) -> None:
    """As `ValkeyLimiter.reserve` does, but for requests without tokens, which it never takes."""
    if cost.tokens or not (cost.requests or cost.kibibytes):
        check_cost(cost)


@pytest.fixture
def performer(valkey: ValkeyServer) -> Iterator[Performer]:
    script = ScriptLimiter(valkey, now=0, lease_ns=900 * SECOND_NS)
    yield Performer(script)
    script.close()


@pytest.mark.parametrize("trace", REPORTS, ids=lambda trace: trace.id)
def test_report(trace: Trace, performer: Performer) -> None:
    drive(trace, performer, resolution_ns=UNIT_NS)
