"""What a worker and the engine process say to each other over the Unix socket.

Each message is a msgpack map behind its length (u32, big-endian). Text never travels here: it
goes through the ring, whose two descriptors ride on the worker's ``Hello`` (``SCM_RIGHTS``:
shared memory first, then the wake-up descriptor).
"""

from __future__ import annotations

import msgspec

from millstream.types import SamplingParams

PROTOCOL_VERSION = 1


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Worker to engine, first message of a connection."""

    version: int
    pid: int


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Engine to worker, answer to ``Hello`` once the model is loaded."""

    version: int
    pid: int
    model: str
    context_length: int
    """Most tokens of prompt and completion together."""
    cache_tokens: int
    """Tokens that the whole page pool can hold."""
    max_batch: int


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """Worker to engine: generate. ``request`` is unique on this connection."""

    request: int
    prompt: list[int]
    params: SamplingParams


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """Worker to engine: stop before the next step, free the pages, write no more records.

    Unknown and finished requests are ignored.
    """

    request: int


class StatsRequest(msgspec.Struct, frozen=True, tag="stats_request"):
    """Worker to engine: answer with ``Stats``."""

    token: int


class Stats(msgspec.Struct, frozen=True, tag="stats"):
    """Engine to worker: the scheduler at this moment."""

    token: int
    running: int
    waiting: int
    pages_used: int
    pages_total: int
    steps: int
    tokens_generated: int
    requests_aborted: int
    last_step_ns: int
    """Duration of the latest step."""
    idle_ns: int
    """Time since the latest step ended; with ``running`` above 0 a large value means a hang."""


FromWorker = Hello | Submit | Abort | StatsRequest
FromEngine = Welcome | Stats
