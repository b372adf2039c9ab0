"""What is left, as clients and an independent parser of Structured Fields read it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import http_sf
import pytest

from millstream.admission import (
    BytesInFlight,
    Cost,
    Lease,
    Limits,
    MemoryLimiter,
    Refusal,
    RequestRate,
    ScopedLimits,
    TokenWindow,
)
from millstream.admission.headers import (
    go_duration,
    lease_headers,
    ratelimit_headers,
    refusal_headers,
    refusal_message,
    settled_headers,
    tightest,
)
from millstream.admission.meters import Reading, Readings

LIMITS = Limits(RequestRate(50, 100), TokenWindow(40_000, 1500), concurrency=64)
SCOPES = (ScopedLimits("tenant:acme/model:secret", LIMITS),)

MS = 1_000_000


def reserved(scopes: tuple[ScopedLimits, ...] = SCOPES, tokens: int = 400) -> Lease:
    lease = MemoryLimiter(clock=lambda: 0).try_reserve(scopes, Cost(tokens))
    assert isinstance(lease, Lease)
    return lease


def refused(limits: Limits, tokens: int = 1, *, scope: str = "tenant:acme") -> Refusal:
    limiter = MemoryLimiter(clock=lambda: 0)
    for _ in range(100):
        answer = limiter.try_reserve((ScopedLimits(scope, limits),), Cost(tokens))
        if isinstance(answer, Refusal):
            return answer
    raise AssertionError("nothing was refused")


def items(field: str) -> dict[str, dict[str, Any]]:
    """Name and parameters of each item of a list."""
    parsed: Any = http_sf.parse(field.encode(), tltype="list")
    assert all(isinstance(name, str) for name, _ in parsed)
    return {name: dict(parameters) for name, parameters in parsed}


def test_the_policy_names_quota_window_and_unit_of_each_dimension() -> None:
    headers = lease_headers([reserved()])
    assert headers["ratelimit-policy"] == (
        '"requests";q=100;w=2, "tokens";q=40000;w=2;qu="tokens", '
        '"concurrency";q=64;qu="concurrent-requests"'
    )
    assert items(headers["ratelimit-policy"]) == {
        "requests": {"q": 100, "w": 2},
        "tokens": {"q": 40_000, "w": 2, "qu": "tokens"},
        "concurrency": {"q": 64, "qu": "concurrent-requests"},
    }


def test_what_is_left_comes_with_the_seconds_until_all_of_it_is_back() -> None:
    headers = lease_headers([reserved()])
    assert items(headers["ratelimit"]) == {
        "requests": {"r": 99, "t": 1},
        "tokens": {"r": 39_600, "t": 2},
        "concurrency": {"r": 63},
    }


def test_memory_in_flight_is_told_in_bytes_without_a_time() -> None:
    limits = Limits(bytes_in_flight=BytesInFlight(8192))
    limiter = MemoryLimiter(clock=lambda: 0)
    lease = limiter.try_reserve((ScopedLimits("global", limits),), Cost(1, kibibytes=3))
    assert isinstance(lease, Lease)
    headers = lease_headers([lease])
    assert items(headers["ratelimit-policy"]) == {"bytes": {"q": 8192, "qu": "bytes-in-flight"}}
    assert items(headers["ratelimit"]) == {"bytes": {"r": 5 * 1024}}


def test_no_field_names_a_scope() -> None:
    refusal = refused(Limits(concurrency=1), scope="tenant:acme/model:secret")
    told = "".join(
        [*lease_headers([reserved()]).values(), *refusal_headers(refusal).values()]
    ) + refusal_message(refusal)
    assert "acme" not in told
    assert "secret" not in told
    assert "your tenant for this model" in told


@pytest.mark.parametrize(
    ("rate", "window"),
    [
        (RequestRate(Fraction(5, 60), 5), 60),
        (RequestRate(10, 10), 1),
        (RequestRate(10, 11), 2),
        (RequestRate(Fraction(1, 3), 1), 3),
        (RequestRate(1000, 1), 1),
    ],
)
def test_the_window_of_a_bucket_is_the_time_in_which_it_fills(
    rate: RequestRate, window: int
) -> None:
    headers = lease_headers([reserved((ScopedLimits("global", Limits(rate)),))])
    assert items(headers["ratelimit-policy"])["requests"]["w"] == window


def test_a_rate_of_nothing_has_no_window() -> None:
    limits = Limits(RequestRate(0, 5))
    meter = Reading("global", 5, 0, 0)
    headers = ratelimit_headers(Readings(requests=meter), (ScopedLimits("global", limits),))
    assert items(headers["ratelimit-policy"]) == {"requests": {"q": 5}}


def test_numbers_stay_within_what_structured_fields_can_say() -> None:
    meter = Reading("global", 1 << 60, -3, 1 << 100)
    headers = ratelimit_headers(Readings(tokens=meter))
    assert items(headers["ratelimit-policy"])["tokens"]["q"] == 10**15 - 1
    assert items(headers["ratelimit"])["tokens"] == {"r": 0, "t": 10**15 - 1}
    assert headers["x-ratelimit-remaining-tokens"] == "0"


def test_a_limiter_that_does_not_tell_its_scopes_still_has_quotas() -> None:
    headers = ratelimit_headers(reserved().snapshot)
    assert items(headers["ratelimit-policy"])["tokens"] == {"q": 40_000, "qu": "tokens"}


def test_a_refusal_shows_nothing_left_and_a_wait_in_both_units() -> None:
    refusal = refused(Limits(RequestRate(Fraction(1, 2), 1)))
    headers = refusal_headers(refusal)
    assert items(headers["ratelimit"])["requests"] == {"r": 0, "t": 2}
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "2000")
    assert refusal_message(refusal) == (
        "The limit on requests of your tenant is reached. Try again in 2000 ms."
    )


@pytest.mark.parametrize(
    ("wait_ns", "seconds", "milliseconds"),
    [(1, "1", "1"), (2_000_000_000, "2", "2000"), (2_100_000_000, "3", "2100"), (0, "1", "1")],
)
def test_a_wait_is_never_rounded_down_nor_nothing(
    wait_ns: int, seconds: str, milliseconds: str
) -> None:
    # redis-cell#56, flask-limiter#62, dragonfly#8288
    headers = refusal_headers(Refusal("global", "tokens", wait_ns, Readings()))
    assert (headers["retry-after"], headers["retry-after-ms"]) == (seconds, milliseconds)


def test_several_branches_show_the_least_that_any_of_them_saw_left() -> None:
    limiter = MemoryLimiter(clock=lambda: 0)
    leases = [limiter.try_reserve(SCOPES, Cost(100)) for _ in range(3)]
    headers = lease_headers([lease for lease in leases if isinstance(lease, Lease)])
    assert headers["x-ratelimit-remaining-tokens"] == "39700"
    assert items(headers["ratelimit"])["concurrency"] == {"r": 61}


def test_of_equally_tight_meters_the_last_is_shown() -> None:
    first, last = Reading("a", 5, 1, 0), Reading("b", 9, 1, 0)
    assert tightest([Readings(tokens=first), Readings(tokens=last)]).tokens is last
    assert tightest([]).tokens is None


def test_after_the_settlement_tokens_are_those_that_are_really_left() -> None:
    lease = reserved()
    lease.settle(150)
    headers = settled_headers([lease], lease.remaining_tokens())
    assert headers["x-ratelimit-remaining-tokens"] == "39850"
    assert items(headers["ratelimit"])["tokens"] == {"r": 39_850, "t": 2}


def test_after_the_settlement_the_places_of_all_branches_are_free_again() -> None:
    limits = Limits(concurrency=3, bytes_in_flight=BytesInFlight(8192))
    limiter = MemoryLimiter(clock=lambda: 0)
    scopes = (ScopedLimits("global", limits),)
    leases = [limiter.try_reserve(scopes, Cost(1, kibibytes=1)) for _ in range(3)]
    own = [lease for lease in leases[1:] if isinstance(lease, Lease)]
    assert items(lease_headers(own)["ratelimit"])["concurrency"] == {"r": 0}
    headers = settled_headers(own, None)
    # What they held of the bytes nobody remembers, so nothing is said of it.
    assert items(headers["ratelimit"]) == {"concurrency": {"r": 2}}


def test_a_quota_that_is_whole_again_needs_no_time() -> None:
    headers = settled_headers([reserved()], 50_000)
    assert headers["x-ratelimit-remaining-tokens"] == "40000"
    assert headers["x-ratelimit-reset-tokens"] == "0s"


def test_without_limits_there_are_no_fields() -> None:
    lease = reserved(())
    assert lease_headers([lease]) == {}
    assert settled_headers([lease], lease.remaining_tokens()) == {}


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (12 * MS, "12ms"),
        (999 * MS, "999ms"),
        (1000 * MS, "1s"),
        (1500 * MS, "1.5s"),
        (59_999 * MS, "59.999s"),
        (60_000 * MS, "1m0s"),
        (360_000 * MS, "6m0s"),
        (3_661_250 * MS, "1h1m1.25s"),
        # Go's longest: what is longer it cannot read.
        (1 << 64, "2562047h47m16.854s"),
    ],
)
def test_durations_are_those_of_go(nanoseconds: int, text: str) -> None:
    assert go_duration(nanoseconds) == text
