"""Every name that dashboards and alerts may rely on.

Names follow the conventions of their kind: prefix, unit at the end, `_total` on counters only,
closed sets of labels. A tenant is never a label, an unknown model is `other`.
"""

from __future__ import annotations

REQUESTS = "millstream_requests_total"
ACTIVE_STREAMS = "millstream_active_streams"
DETACHED_STREAMS = "millstream_detached_streams"
TIME_TO_FIRST_TOKEN = "millstream_time_to_first_token_seconds"  # noqa: S105 - a metric's name
INTER_TOKEN_LATENCY = "millstream_inter_token_latency_seconds"  # noqa: S105 - a metric's name
TOKENS = "millstream_tokens_total"
PARTIAL_TOKENS = "millstream_partial_tokens_total"
LIMITER_REFUSALS = "millstream_limiter_refusals_total"
HUB_DROPPED = "millstream_hub_dropped_records_total"
ENGINE_BATCH_SIZE = "millstream_engine_batch_size"
QUEUE_DEPTH = "millstream_queue_depth"
KV_BLOCKS_USED = "millstream_kv_blocks_used"
KV_BLOCKS = "millstream_kv_blocks"
ADMISSION_WAITING = "millstream_admission_waiting"
ADMISSION_WAITS = "millstream_admission_waits_total"
ADMISSION_WAIT = "millstream_admission_wait_seconds"
CONFIG_RELOADS = "millstream_config_reloads_total"
CONFIG_REVISION = "millstream_config_revision"
CONFIG_VALID = "millstream_config_last_reload_successful"
LIMITER_UP = "millstream_limiter_up"
STORE_UP = "millstream_store_up"
STORE_ERRORS = "millstream_store_errors_total"
STORE_ENTRIES = "millstream_store_entries_total"
STORE_WRITTEN_BYTES = "millstream_store_written_bytes_total"
STORE_RETAINED_STREAMS = "millstream_store_retained_streams"
STORE_RETAINED_BYTES = "millstream_store_retained_bytes"

OTHER_MODEL = "other"
WAIT_ENDINGS = ("admitted", "full", "deadline", "client_gone", "failed")
RELOAD_SOURCES = ("file", "document")
RELOAD_RESULTS = ("applied", "unchanged", "refused", "superseded")
SCOPE_KINDS = ("global", "tenant", "model", "tenant_model")
DIMENSIONS = ("requests", "tokens", "concurrency", "bytes")

# OpenTelemetry's boundaries for `gen_ai.server.time_to_first_token`, with vLLM's upper ones and
# 2, which objectives like to name.
TIME_TO_FIRST_TOKEN_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0),
)

# Those of the stream log (`INTER_TOKEN_BOUNDS_NS`), which does the counting: OpenTelemetry's for
# `gen_ai.server.time_per_output_token`, finer below 10 ms and wider above 2.5 s.
INTER_TOKEN_BUCKETS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 10.0),
)

# A queue's deadline is 10 s unless it is set.
ADMISSION_WAIT_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)

HELP = {
    REQUESTS: "Requests that ended, by route, model and how they ended",
    ACTIVE_STREAMS: "Streams between admission and outcome",
    DETACHED_STREAMS: "Streams that go on while nobody reads them",
    TIME_TO_FIRST_TOKEN: "Seconds from admission to the first token, queue and prefill included",
    INTER_TOKEN_LATENCY: "Seconds between two tokens of one stream",
    TOKENS: "Tokens of prompts and of completions",
    PARTIAL_TOKENS: "Those of them that were spent on answers which did not come to their end",
    LIMITER_REFUSALS: "Requests that a limit refused, by scope and dimension",
    ADMISSION_WAITING: "Requests that wait for a limit",
    ADMISSION_WAITS: "Requests that a limit with a queue did not admit at once, by how that ended",
    ADMISSION_WAIT: "Seconds that requests waited for a limit, however that ended",
    CONFIG_RELOADS: "Configurations that a worker looked at since its start, by what they came to",
    CONFIG_REVISION: "Number of the settings in force, the highest of all workers",
    CONFIG_VALID: "1 while every worker took over the last configuration, 0 while one refused it",
    HUB_DROPPED: "Records of an engine whose stream had ended",
    ENGINE_BATCH_SIZE: "Requests that the engine decodes together",
    QUEUE_DEPTH: "Requests that wait in the engine",
    KV_BLOCKS_USED: "Pages of the key-value cache that are in use",
    KV_BLOCKS: "Pages that the key-value cache has",
    LIMITER_UP: "1 while every worker reaches the counters of the limits, 0 while one does not",
    STORE_UP: "1 while every worker reaches the stream store, 0 while one does not",
    STORE_ERRORS: "Times that the stream store did not answer or refused, by what was asked of it",
    STORE_ENTRIES: "Entries of stream logs that were stored",
    STORE_WRITTEN_BYTES: "Bytes of these entries, without what the store adds",
    STORE_RETAINED_STREAMS: "Ended streams that the workers keep in memory",
    STORE_RETAINED_BYTES: "Memory of these streams",
}
