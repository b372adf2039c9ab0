from __future__ import annotations

import pytest

from millstream.durable.expiry import (
    ExpiresAt,
    Lifetime,
    TimeToLive,
    format_expires_at,
    parse_expires_at,
    parse_ttl,
)
from tests.unit.durable.making import SECOND


@pytest.mark.parametrize("text", ["0", "1", "3600", "999999999999"])
def test_plain_seconds_are_a_time_to_live(text: str) -> None:
    assert parse_ttl(text) == TimeToLive(int(text))


@pytest.mark.parametrize("text", ["", "+60", "060", "00", "-1", "60.0", "1e3", " 1", "٣", "1" * 13])
def test_anything_else_is_none(text: str) -> None:
    assert parse_ttl(text) is None


@pytest.mark.parametrize(
    ("text", "unix_ns"),
    [
        ("1970-01-01T00:00:01Z", SECOND),
        ("1970-01-01t01:00:00.5+01:00", SECOND // 2),
        ("1969-12-31T23:00:00-01:00", 0),
        ("2026-11-30T12:00:00.123456Z", 1_796_040_000_123_456_000),
    ],
)
def test_an_instant_is_rfc_3339(text: str, unix_ns: int) -> None:
    assert parse_expires_at(text) == ExpiresAt(unix_ns)


@pytest.mark.parametrize(
    "text",
    [
        "", "tomorrow", "2026-11-30", "2026-11-30T12:00:00", "20261130T120000Z",
        "2026-13-01T00:00:00Z", "2026-11-30 12:00:00Z", "2026-11-30T25:00:00Z",
    ],
)  # fmt: skip
def test_what_is_not_rfc_3339_is_none(text: str) -> None:
    assert parse_expires_at(text) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("9999-12-31T23:59:59-00:01", None),
        ("0001-01-01T00:00:00+00:01", None),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
    ],
)
def test_an_instant_that_is_taken_can_be_shown(text: str, shown: str | None) -> None:
    expiry = parse_expires_at(text)
    assert (expiry and format_expires_at(expiry)) == shown


def test_an_instant_is_shown_in_utc() -> None:
    expiry = parse_expires_at("2026-11-30T13:00:00.120+01:00")

    assert expiry is not None
    assert format_expires_at(expiry) == "2026-11-30T12:00:00.120Z"


def test_idle_time_begins_anew_with_every_touch() -> None:
    lifetime = Lifetime(TimeToLive(2), now_ns=10 * SECOND, unix_ns=0)
    assert lifetime.deadline_ns() == 12 * SECOND

    lifetime.touch(11 * SECOND)

    assert lifetime.deadline_ns() == 13 * SECOND


def test_an_instant_stays_where_it_is_on_the_monotonic_clock() -> None:
    lifetime = Lifetime(ExpiresAt(105 * SECOND), now_ns=10 * SECOND, unix_ns=100 * SECOND)
    lifetime.touch(14 * SECOND)

    assert lifetime.deadline_ns() == 15 * SECOND


def test_no_expiry_is_no_deadline() -> None:
    assert Lifetime(None, now_ns=0, unix_ns=0).deadline_ns() is None
