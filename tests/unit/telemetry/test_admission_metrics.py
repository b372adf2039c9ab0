"""Who waits for a limit, and which configuration holds."""

from __future__ import annotations

import subprocess

from millstream.telemetry.metrics import Metrics
from tests.unit.telemetry.exposition import read

WAITS = 'millstream_admission_waits_total{{model="{}",outcome="{}"}}'
RELOADS = 'millstream_config_reloads_total{{result="{}",source="{}"}}'


def test_those_who_wait_are_those_who_began_and_have_not_ended(metrics: Metrics) -> None:
    for _ in range(3):
        metrics.wait_began("chat")
    metrics.wait_ended("chat", "admitted", 0.3)

    counted = read(metrics)

    assert counted['millstream_admission_waiting{model="chat"}'] == 2
    assert counted[WAITS.format("chat", "admitted")] == 1


def test_the_time_of_a_wait_falls_into_its_bucket(metrics: Metrics) -> None:
    for seconds in (0.25, 7, 1000):
        metrics.wait_began("chat")
        metrics.wait_ended("chat", "deadline", seconds)

    counted = read(metrics)

    bucket = 'millstream_admission_wait_seconds_bucket{{le="{}",model="chat"}}'
    below = [counted[bucket.format(bound)] for bound in ("0.1", "0.25", "10.0", "300.0", "+Inf")]
    assert below == [0, 1, 2, 2, 3]
    assert counted['millstream_admission_wait_seconds_sum{model="chat"}'] == 1007.25


def test_who_was_refused_instead_of_waiting_has_no_time(metrics: Metrics) -> None:
    metrics.wait_denied("typo", "full")

    counted = read(metrics)

    assert counted[WAITS.format("other", "full")] == 1
    assert counted[WAITS.format("chat", "full")] == 0
    assert counted['millstream_admission_wait_seconds_count{model="chat"}'] == 0


def test_those_who_wait_in_a_killed_worker_wait_no_more(
    metrics: Metrics, other_worker: subprocess.Popen[str]
) -> None:
    metrics.wait_began("chat")
    assert read(metrics)['millstream_admission_waiting{model="chat"}'] == 2
    other_worker.kill()
    other_worker.wait()
    assert read(metrics)['millstream_admission_waiting{model="chat"}'] == 1


def test_configurations_are_counted_by_where_they_came_from_and_what_they_came_to(
    metrics: Metrics,
) -> None:
    metrics.config_reloaded("file", "applied")
    metrics.config_reloaded("document", "refused")

    counted = read(metrics)

    assert counted[RELOADS.format("applied", "file")] == 1
    assert counted[RELOADS.format("refused", "document")] == 1
    assert counted[RELOADS.format("refused", "file")] == 0


def test_the_last_configuration_is_good_until_it_is_refused(metrics: Metrics) -> None:
    assert read(metrics)["millstream_config_last_reload_successful{}"] == 1
    for result, good in (("refused", 0), ("superseded", 0), ("unchanged", 1), ("applied", 1)):
        metrics.config_reloaded("file", result)
        assert read(metrics)["millstream_config_last_reload_successful{}"] == good


def test_one_worker_that_refused_shows_for_all_and_the_highest_revision_does(
    metrics: Metrics, other_worker: subprocess.Popen[str]
) -> None:
    metrics.config_revision(2)
    metrics.config_reloaded("file", "applied")

    counted = read(metrics)

    assert counted["millstream_config_revision{}"] == 3
    assert counted["millstream_config_last_reload_successful{}"] == 0


def test_every_limit_that_could_refuse_shows_zeros_from_the_start(metrics: Metrics) -> None:
    counted = read(metrics)
    key = 'millstream_limiter_refusals_total{dimension="bytes",scope="tenant_model"}'
    assert counted[key] == 0
    assert counted[WAITS.format("chat", "client_gone")] == 0
