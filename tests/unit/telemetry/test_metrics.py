from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from millstream.telemetry import names
from millstream.telemetry.bulk_histogram import BulkHistogram
from millstream.telemetry.metrics import Metrics
from tests.unit.telemetry.exposition import read


def test_requests_are_counted_by_route_model_and_outcome(metrics: Metrics) -> None:
    metrics.request("/v1/completions", "chat", "completed")
    metrics.request("/v1/completions", "chat", "completed")
    metrics.request("/v1/completions", "chat", "client_gone")

    counted = read(metrics)

    key = 'millstream_requests_total{{model="chat",outcome="{}",route="/v1/completions"}}'
    assert counted[key.format("completed")] == 2
    assert counted[key.format("client_gone")] == 1


def test_a_model_that_is_not_served_is_counted_as_other(metrics: Metrics) -> None:
    for index in range(100):
        metrics.request("/v1/completions", f"typo-{index}", "model_not_found")

    counted = {key: value for key, value in read(metrics).items() if value and "requests" in key}

    assert list(counted.values()) == [100]
    assert 'model="other"' in next(iter(counted))


def test_a_served_model_shows_zeros_from_the_start(metrics: Metrics) -> None:
    counted = read(metrics)

    assert counted['millstream_active_streams{model="chat"}'] == 0
    assert counted['millstream_tokens_total{model="chat",type="prompt"}'] == 0
    assert counted['millstream_time_to_first_token_seconds_count{model="chat"}'] == 0


def test_active_streams_are_those_opened_and_not_closed(metrics: Metrics) -> None:
    metrics.stream_opened("chat")
    metrics.stream_opened("chat")
    metrics.stream_closed("chat")

    assert read(metrics)['millstream_active_streams{model="chat"}'] == 1


def test_tokens_are_counted_by_type(metrics: Metrics) -> None:
    metrics.tokens("chat", prompt=3, completion=4)
    metrics.tokens("chat", prompt=30, completion=40)

    counted = read(metrics)

    assert counted['millstream_tokens_total{model="chat",type="prompt"}'] == 33
    assert counted['millstream_tokens_total{model="chat",type="completion"}'] == 44


def test_a_request_that_its_worker_could_not_count_is_counted_as_any_other(
    metrics: Metrics,
) -> None:
    metrics.store_sealed("stream", "chat", "engine_lost")

    labels = 'model="chat",outcome="engine_lost",route="stream"'
    assert read(metrics)[f"millstream_requests_total{{{labels}}}"] == 1


def test_the_store_is_up_when_every_worker_reaches_it(metrics: Metrics) -> None:
    metrics.store_up(True)
    metrics.store_error("write")
    metrics.store_written(3, 700)
    metrics.store_retained(2, 9000)

    counted = read(metrics)

    assert counted["millstream_store_up{}"] == 1
    assert counted['millstream_store_errors_total{operation="write"}'] == 1
    assert counted["millstream_store_entries_total{}"] == 3
    assert counted["millstream_store_written_bytes_total{}"] == 700
    assert counted["millstream_store_retained_streams{}"] == 2
    assert counted["millstream_store_retained_bytes{}"] == 9000
    metrics.store_up(False)
    assert read(metrics)["millstream_store_up{}"] == 0


def test_refusals_are_counted_by_scope_and_dimension(metrics: Metrics) -> None:
    metrics.refusal("global", "tokens")

    key = 'millstream_limiter_refusals_total{dimension="tokens",scope="global"}'
    assert read(metrics)[key] == 1


def test_time_to_first_token_falls_into_its_bucket(metrics: Metrics) -> None:
    metrics.first_token("chat", 0.03)

    counted = read(metrics)

    bucket = 'millstream_time_to_first_token_seconds_bucket{{le="{}",model="chat"}}'
    assert counted[bucket.format("0.02")] == 0
    assert counted[bucket.format("0.04")] == 1
    assert counted['millstream_time_to_first_token_seconds_sum{model="chat"}'] == 0.03


def test_a_streams_gaps_are_added_at_once(metrics: Metrics) -> None:
    counts = [0] * (len(names.INTER_TOKEN_BUCKETS) + 1)
    counts[names.INTER_TOKEN_BUCKETS.index(0.025)] = 7
    counts[-1] = 2

    metrics.inter_token("chat", counts, 30.5)
    metrics.inter_token("chat", counts, 30.5)

    counted = read(metrics)
    bucket = 'millstream_inter_token_latency_seconds_bucket{{le="{}",model="chat"}}'
    assert counted[bucket.format("0.01")] == 0
    assert counted[bucket.format("0.025")] == 14
    assert counted[bucket.format("10.0")] == 14
    assert counted[bucket.format("+Inf")] == 18
    assert counted['millstream_inter_token_latency_seconds_sum{model="chat"}'] == 61
    assert counted['millstream_inter_token_latency_seconds_count{model="chat"}'] == 18


def test_counts_that_do_not_match_the_buckets_are_refused(metrics: Metrics) -> None:
    with pytest.raises(ValueError, match="3 counts for 19 buckets"):
        metrics.inter_token("chat", [1, 2, 3], 1.0)


def test_counts_add_up_to_the_same_as_single_observations(tmp_path: Path) -> None:
    Metrics([], tmp_path)
    registry = CollectorRegistry()
    bounds = (0.1, 0.5, 1.0)
    one = BulkHistogram("one", "one by one", registry=registry, buckets=bounds)
    bulk = BulkHistogram("bulk", "at once", registry=registry, buckets=bounds)
    for amount in (0.1, 0.2, 0.5, 0.75, 3.0):
        one.observe(amount)
    bulk.observe_counts([1, 2, 1, 1], 0.1 + 0.2 + 0.5 + 0.75 + 3.0)

    first, second = (
        [sample.value for sample in metric.samples if not sample.name.endswith("_created")]
        for metric in registry.collect()
    )

    assert first == second
    assert first == [1, 3, 4, 5, 5, 4.55]


def test_workers_answer_for_each_other(
    metrics: Metrics, other_worker: subprocess.Popen[str]
) -> None:
    metrics.request("/v1/chat/completions", "chat", "completed")
    metrics.stream_opened("chat")

    counted = read(metrics)

    key = 'millstream_requests_total{model="chat",outcome="completed",route="/v1/chat/completions"}'
    assert counted[key] == 2
    assert counted['millstream_active_streams{model="chat"}'] == 2


def test_the_same_engine_seen_by_two_workers_is_not_counted_twice(
    metrics: Metrics, other_worker: subprocess.Popen[str]
) -> None:
    metrics.engine("local", running=1, waiting=2, pages_used=3, pages_total=8)

    counted = read(metrics)

    assert counted['millstream_engine_batch_size{engine="local"}'] == 1
    assert counted['millstream_queue_depth{engine="local"}'] == 2
    assert counted['millstream_kv_blocks_used{engine="local"}'] == 3
    assert counted['millstream_kv_blocks{engine="local"}'] == 8


def test_a_killed_workers_streams_end_and_its_requests_stay_counted(
    metrics: Metrics, other_worker: subprocess.Popen[str]
) -> None:
    metrics.stream_opened("chat")
    other_worker.kill()
    other_worker.wait()

    counted = read(metrics)

    assert counted['millstream_active_streams{model="chat"}'] == 1
    assert not any(key.startswith("millstream_engine_batch_size") for key in counted)
    assert sum(value for key, value in counted.items() if "requests_total" in key) == 1


def test_one_worker_without_counters_shows_for_all(metrics: Metrics) -> None:
    metrics.limiter_up(True)
    assert read(metrics)["millstream_limiter_up{}"] == 1
    metrics.limiter_up(False)
    assert read(metrics)["millstream_limiter_up{}"] == 0
