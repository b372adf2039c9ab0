"""The script in Valkey at chosen times: rings, repeated calls, leases of unequal lives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.admission import Cost, Limits, ScopedLimits, TokenWindow
from millstream.admission.shared_quota import UNIT_NS
from tests.integration.valkey_limiters import GENEROUS, SMALL
from tests.integration.valkey_script import ScriptLimiter, Taken
from tests.integration.valkey_server import ValkeyServer

SLOT = 125
"""Of a window of 1 ms, in the script's units."""

RING = ScopedLimits("a", Limits(tokens=TokenWindow(100, 1)))


@pytest.fixture
def script(valkey: ValkeyServer) -> Iterator[ScriptLimiter]:
    script = ScriptLimiter(valkey, now=1_000 * SLOT, lease_ns=10**9)
    yield script
    script.close()


def taken(script: ScriptLimiter, scope: ScopedLimits, tokens: int) -> Taken:
    lease = script.reserve([scope], Cost(tokens))
    assert isinstance(lease, Taken)
    return lease


def tokens_left(script: ScriptLimiter, scope: ScopedLimits = RING) -> int:
    meter = script.peek([scope]).tokens
    assert meter is not None
    return meter.remaining


def places_left(script: ScriptLimiter) -> tuple[int, int]:
    """Of `SMALL`: leases, and the KiB that they may hold."""
    snapshot = script.peek([SMALL])
    assert snapshot.concurrency is not None
    assert snapshot.bytes is not None
    return snapshot.concurrency.remaining, snapshot.bytes.remaining


def test_a_call_that_is_repeated_takes_once_and_gives_nothing_back_that_is_uncertain(
    script: ScriptLimiter,
) -> None:
    first = script.reserve([GENEROUS, SMALL], Cost(20, kibibytes=2), name="mine:2")
    again = script.reserve([GENEROUS, SMALL], Cost(20, kibibytes=2), name="mine:2", again=True)
    other = script.reserve([GENEROUS, SMALL], Cost(20), name="new:0", again=True)
    assert isinstance(first, Taken)
    assert isinstance(again, Taken)
    assert isinstance(other, Taken)
    assert tokens_left(script, SMALL) == 60
    assert script.settle(again, 5)
    assert not script.settle(first, 5)
    assert tokens_left(script, SMALL) == 60


def test_credit_goes_to_the_slot_of_the_reservation_as_long_as_it_counts(
    script: ScriptLimiter,
) -> None:
    early, late = taken(script, RING, 30), taken(script, RING, 30)
    script.now += 16 * SLOT
    assert script.settle(early, 10)
    assert tokens_left(script) == 60
    script.now += SLOT
    taken(script, RING, 40)
    assert script.settle(late, 0)
    assert tokens_left(script) == 60


def test_a_ring_that_begins_anew_gets_no_credit_of_the_one_before(script: ScriptLimiter) -> None:
    lease = taken(script, RING, 50)
    script.peek([RING._replace(limits=Limits(concurrency=9))])
    taken(script, RING, 80)
    assert script.settle(lease, 0)
    assert tokens_left(script) == 20


def test_a_short_lease_after_a_long_one_expires_in_its_own_time(valkey: ValkeyServer) -> None:
    scope = ScopedLimits("a", Limits(concurrency=2))
    long, short = (ScriptLimiter(valkey, now=0, lease_ns=ns) for ns in (10**10, 10**9))
    long.reserve([scope], Cost(1), name="long:0")
    short.reserve([scope], Cost(1), name="short:0")
    short.now = 10**9 // UNIT_NS
    snapshot = short.peek([scope])
    assert snapshot.concurrency is not None
    assert snapshot.concurrency.remaining == 1
    long.close()
    short.close()


def test_leases_that_the_server_dropped_hold_their_places_until_they_would_have_expired(
    valkey: ValkeyServer, script: ScriptLimiter
) -> None:
    for _ in range(2):
        script.reserve([SMALL], Cost(1, kibibytes=3))
    valkey.client.delete("ms:{default}:limit:leases:tenant:t")
    late = script.reserve([SMALL], Cost(1, kibibytes=2))
    assert isinstance(late, Taken)
    assert places_left(script) == (0, 2)
    for _ in range(2):
        script.now += 10**9 // UNIT_NS * 3 // 4
        assert script.renew([late]) == [True]
    assert places_left(script) == (2, 8)
    assert script.settle(late, 1)
    assert places_left(script) == (3, 10)


def test_what_was_used_while_the_clock_was_set_back_outlives_its_setting_right(
    valkey: ValkeyServer, script: ScriptLimiter
) -> None:
    hour = 3_600_000_000_000 // UNIT_NS
    script.now += hour
    taken(script, RING, 10)
    script.now -= hour
    taken(script, RING, 20)
    for part in ("state", "leases"):
        assert valkey.client.pttl(f"ms:{{default}}:limit:{part}:a") > 3_600_000
