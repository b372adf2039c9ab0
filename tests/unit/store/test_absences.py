from __future__ import annotations

from millstream.store.valkey.absences import Absences


def test_one_is_gone_when_it_has_been_missing_for_the_whole_patience() -> None:
    absences = Absences(100)
    assert not absences.gone("a", False, now_ns=0, failures=0)
    assert not absences.gone("a", False, now_ns=99, failures=0)
    assert absences.gone("a", False, now_ns=100, failures=0)


def test_one_that_is_seen_again_starts_anew() -> None:
    absences = Absences(100)
    assert not absences.gone("a", False, now_ns=0, failures=0)
    assert not absences.gone("a", True, now_ns=99, failures=0)
    assert not absences.gone("a", False, now_ns=101, failures=0)
    assert not absences.gone("a", False, now_ns=200, failures=0)
    assert absences.gone("a", False, now_ns=201, failures=0)


def test_a_failure_in_between_starts_anew() -> None:
    absences = Absences(100)
    assert not absences.gone("a", False, now_ns=0, failures=3)
    assert not absences.gone("a", False, now_ns=100, failures=4)
    assert not absences.gone("a", False, now_ns=199, failures=4)
    assert absences.gone("a", False, now_ns=200, failures=4)


def test_nothing_is_kept_of_those_that_nobody_asks_for() -> None:
    absences = Absences(100)
    for name in ("a", "b"):
        absences.gone(name, False, now_ns=0, failures=0)
    absences.keep({"b"})
    assert not absences.gone("a", False, now_ns=100, failures=0)
    assert absences.gone("b", False, now_ns=100, failures=0)
