"""The comparison that ``make conformance`` stands on."""

from __future__ import annotations

from tests.conformance.run import EXPECTED, differences, expected_failures, read_report, summary

RESULTS = {"A works": "passed", "B forks": "failed", "C waits": "skipped"}


def test_nothing_is_said_when_all_is_as_expected() -> None:
    assert differences(RESULTS, {"B forks"}) == []


def test_a_new_failure_is_named() -> None:
    assert differences(RESULTS, set()) == ["fails: B forks"]


def test_a_listed_test_that_does_not_fail_is_named() -> None:
    assert differences(RESULTS, {"A works", "B forks", "C waits", "D"}) == [
        "listed, but passed: A works",
        "listed, but skipped: C waits",
        "listed, but unknown: D",
    ]


def test_a_suite_that_did_not_run_is_no_success() -> None:
    assert differences({}, set()) == ["no test passes"]


def test_results_are_read_by_full_name() -> None:
    report = {
        "testResults": [
            {"assertionResults": [{"fullName": name, "status": RESULTS[name]}]} for name in RESULTS
        ]
    }
    assert read_report(report) == RESULTS
    assert summary(RESULTS) == "3 tests: 1 pass, 1 fail, 1 are skipped by the suite"


def test_only_forks_are_expected_to_fail() -> None:
    names = expected_failures(EXPECTED.read_text())

    assert names
    assert all(name.startswith("Fork - ") for name in names)
