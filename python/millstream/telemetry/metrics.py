"""Prometheus metrics, in multi-process mode always: any worker answers for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Literal

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector

from millstream.telemetry import names
from millstream.telemetry.bulk_histogram import BulkHistogram
from millstream.telemetry.shared_files import VARIABLE, metrics_directory, remove_dead_gauges


class Metrics:
    """The metrics of one worker, rendered together with those of the server's other workers.

    ``models`` are the names that the label `model` may hold; any other becomes `other`.
    ``directory`` is shared by the workers of one server (default: `metrics_directory`). A process
    has one of these at a time: the client library keeps where it writes in a global.
    """

    def __init__(self, models: Iterable[str], directory: Path | None = None) -> None:
        self._directory = directory or metrics_directory()
        self._models = frozenset(models)
        # The library chooses its mode when it is imported, which may have been before us, and
        # looks the directory up when a file is first needed.
        os.environ[VARIABLE] = str(self._directory)
        values.ValueClass = values.MultiProcessValue()
        self._requests = _counter(names.REQUESTS, "route", "model", "outcome")
        self._tokens = _counter(names.TOKENS, "model", "type")
        self._partial_tokens = _counter(names.PARTIAL_TOKENS, "model", "type")
        self._refusals = _counter(names.LIMITER_REFUSALS, "scope", "dimension")
        self._active = _gauge(names.ACTIVE_STREAMS, "model", mode="livesum")
        self._detached = _gauge(names.DETACHED_STREAMS, "model", mode="livesum")
        self._dropped = _counter(names.HUB_DROPPED, "engine")
        self._first_token = _histogram(names.TIME_TO_FIRST_TOKEN, names.TIME_TO_FIRST_TOKEN_BUCKETS)
        self._inter_token = _histogram(names.INTER_TOKEN_LATENCY, names.INTER_TOKEN_BUCKETS)
        # Every worker asks the same engine, so their answers are not added up.
        self._batch_size = _gauge(names.ENGINE_BATCH_SIZE, "engine", mode="livemostrecent")
        self._queue_depth = _gauge(names.QUEUE_DEPTH, "engine", mode="livemostrecent")
        self._blocks_used = _gauge(names.KV_BLOCKS_USED, "engine", mode="livemostrecent")
        self._blocks = _gauge(names.KV_BLOCKS, "engine", mode="livemostrecent")
        self._limiter_up = _gauge(names.LIMITER_UP, mode="livemin")
        self._store_up = _gauge(names.STORE_UP, mode="livemin")
        self._store_errors = _counter(names.STORE_ERRORS, "operation")
        self._store_entries = _counter(names.STORE_ENTRIES)
        self._store_bytes = _counter(names.STORE_WRITTEN_BYTES)
        self._retained_streams = _gauge(names.STORE_RETAINED_STREAMS, mode="livesum")
        self._retained_bytes = _gauge(names.STORE_RETAINED_BYTES, mode="livesum")
        self._waiting = _gauge(names.ADMISSION_WAITING, "model", mode="livesum")
        self._waits = _counter(names.ADMISSION_WAITS, "model", "outcome")
        self._wait = _histogram(names.ADMISSION_WAIT, names.ADMISSION_WAIT_BUCKETS)
        self._reloads = _counter(names.CONFIG_RELOADS, "source", "result")
        self._revision = _gauge(names.CONFIG_REVISION, mode="livemax")
        self._config_valid = _gauge(names.CONFIG_VALID, mode="livemin")
        self._config_valid.set(1)
        for labels in product(names.SCOPE_KINDS, names.DIMENSIONS):
            self._refusals.labels(*labels)
        for labels in product(names.RELOAD_SOURCES, names.RELOAD_RESULTS):
            self._reloads.labels(*labels)
        for model in self._models:
            self._declare(model)

    def request(self, route: str, model: str, outcome: str) -> None:
        """Counts a request that ended. ``route`` is the route's template, never a raw path."""
        self._requests.labels(route, self._model(model), outcome).inc()

    def stream_opened(self, model: str) -> None:
        """A stream was admitted."""
        self._active.labels(self._model(model)).inc()

    def stream_closed(self, model: str) -> None:
        """A stream has its outcome."""
        self._active.labels(self._model(model)).dec()

    def stream_detached(self, model: str) -> None:
        """A stream goes on without a reader."""
        self._detached.labels(self._model(model)).inc()

    def stream_left_detached(self, model: str) -> None:
        """A stream without a reader has got one, or has ended."""
        self._detached.labels(self._model(model)).dec()

    def dropped_records(self, engine: str, records: int) -> None:
        """Records of an engine that no stream took."""
        self._dropped.labels(engine).inc(records)

    def first_token(self, model: str, seconds: float) -> None:
        """A stream's first token came ``seconds`` after its admission."""
        self._first_token.labels(self._model(model)).observe(seconds)

    def inter_token(self, model: str, counts: Sequence[int], total_seconds: float) -> None:
        """A stream's gaps between tokens: counts by `INTER_TOKEN_BUCKETS` and +Inf, their sum.

        Raises `ValueError` if the counts do not match the buckets.
        """
        self._inter_token.labels(self._model(model)).observe_counts(counts, total_seconds)

    def tokens(self, model: str, *, prompt: int, completion: int, partial: bool = False) -> None:
        """What a stream cost; ``partial`` if it was given up before its own end."""
        counters = (self._tokens, self._partial_tokens) if partial else (self._tokens,)
        for counter in counters:
            counter.labels(self._model(model), "prompt").inc(prompt)
            counter.labels(self._model(model), "completion").inc(completion)

    def refusal(self, scope: str, dimension: str) -> None:
        """A limit refused: ``scope`` is its kind (`global`, `model`), never a key."""
        self._refusals.labels(scope, dimension).inc()

    def wait_began(self, model: str) -> None:
        """A request waits for a limit."""
        self._waiting.labels(self._model(model)).inc()

    def wait_ended(self, model: str, ending: str, seconds: float) -> None:
        """A request waits no more."""
        name = self._model(model)
        self._waiting.labels(name).dec()
        self._wait.labels(name).observe(seconds)
        self._waits.labels(name, ending).inc()

    def wait_denied(self, model: str, ending: str) -> None:
        """A request was refused instead of waiting."""
        self._waits.labels(self._model(model), ending).inc()

    def config_reloaded(self, source: str, result: str) -> None:
        """This worker has looked at a configuration: ``result`` is one of `ReloadResult`."""
        self._reloads.labels(source, result).inc()
        if result != "superseded":
            self._config_valid.set(int(result != "refused"))

    def config_revision(self, revision: int) -> None:
        """The number of the settings that this worker goes by."""
        self._revision.set(revision)

    def engine(
        self, name: str, *, running: int, waiting: int, pages_used: int, pages_total: int
    ) -> None:
        """The engine's own view of itself; all zeros once it is lost."""
        self._batch_size.labels(name).set(running)
        self._queue_depth.labels(name).set(waiting)
        self._blocks_used.labels(name).set(pages_used)
        self._blocks.labels(name).set(pages_total)

    def limiter_up(self, up: bool) -> None:
        """Whether this worker reaches the shared counters of the limits."""
        self._limiter_up.set(int(up))

    def store_up(self, up: bool) -> None:
        """Whether this worker reaches the stream store."""
        self._store_up.set(int(up))

    def store_error(self, operation: str) -> None:
        """The stream store did not answer, or refused."""
        self._store_errors.labels(operation).inc()

    def store_written(self, entries: int, size_bytes: int) -> None:
        """So many entries of stream logs have been stored."""
        self._store_entries.inc(entries)
        self._store_bytes.inc(size_bytes)

    def store_retained(self, streams: int, size_bytes: int) -> None:
        """What this worker's memory keeps of ended streams."""
        self._retained_streams.set(streams)
        self._retained_bytes.set(size_bytes)

    def store_sealed(self, route: str, model: str, outcome: str) -> None:
        """A request of a worker that died before it could count it."""
        self.request(route, model, outcome)

    def render(self) -> tuple[bytes, str]:
        """What all workers of the server counted, and its content type."""
        remove_dead_gauges(self._directory)
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._directory))
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def _declare(self, model: str) -> None:
        """Shows zeros from the start: a rate over a series that just appeared misses its rise."""
        self._active.labels(model)
        self._detached.labels(model)
        self._first_token.labels(model)
        self._inter_token.labels(model)
        self._waiting.labels(model)
        self._wait.labels(model)
        for ending in names.WAIT_ENDINGS:
            self._waits.labels(model, ending)
        for counter in (self._tokens, self._partial_tokens):
            counter.labels(model, "prompt")
            counter.labels(model, "completion")

    def _model(self, name: str) -> str:
        return name if name in self._models else names.OTHER_MODEL


# None registers: the scrape's registry is made anew from the files each time.


def _counter(name: str, *labels: str) -> Counter:
    return Counter(name, names.HELP[name], labels, registry=None)


def _gauge(
    name: str, *labels: str, mode: Literal["livesum", "livemin", "livemax", "livemostrecent"]
) -> Gauge:
    return Gauge(name, names.HELP[name], labels, registry=None, multiprocess_mode=mode)


def _histogram(name: str, buckets: Sequence[float]) -> BulkHistogram:
    return BulkHistogram(name, names.HELP[name], ("model",), registry=None, buckets=buckets)
