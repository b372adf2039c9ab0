"""Why a request was not done; what that is in HTTP, `millstream.api` knows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """A refusal's kind; the value is the stable ``code`` that clients see."""

    CLOSED = "stream_closed"
    CONFIGURATION = "stream_exists"
    CONTENT_TYPE = "content_type_mismatch"
    NO_CONTENT_TYPE = "content_type_missing"
    EMPTY = "empty_append"
    NOT_JSON = "invalid_json"
    SEQUENCE = "sequence_regression"
    PRODUCER_EPOCH = "producer_epoch_stale"
    PRODUCER_START = "producer_epoch_start"
    PRODUCER_GAP = "producer_sequence_gap"
    STREAM_FULL = "stream_full"
    STORE_FULL = "store_full"
    TOO_MANY_STREAMS = "too_many_streams"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nothing was changed; ``epoch`` and the sequences are those that the producer needs."""

    reason: Reason
    message: str
    epoch: int | None = None
    expected: int | None = None
    received: int | None = None
