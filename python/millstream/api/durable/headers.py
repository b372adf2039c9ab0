"""The protocol's own header fields, read and named in one place."""

from __future__ import annotations

import re

from starlette.datastructures import Headers

from millstream.api.durable.denied import Denied
from millstream.durable import ContentType, ProducerMark, parse_content_type
from millstream.durable.expiry import Expiry, parse_expires_at, parse_ttl

NEXT_OFFSET = "stream-next-offset"
UP_TO_DATE = "stream-up-to-date"
CLOSED = "stream-closed"
CURSOR = "stream-cursor"
TTL = "stream-ttl"
EXPIRES_AT = "stream-expires-at"
SEQUENCE = "stream-seq"
SSE_ENCODING = "stream-sse-data-encoding"
FORKED_FROM = "stream-forked-from"
PRODUCER_ID = "producer-id"
PRODUCER_EPOCH = "producer-epoch"
PRODUCER_SEQUENCE = "producer-seq"
EXPECTED_SEQUENCE = "producer-expected-seq"
RECEIVED_SEQUENCE = "producer-received-seq"

REQUEST_HEADERS = (
    "Authorization", "Content-Type", "If-None-Match", "Stream-Closed", "Stream-Expires-At",
    "Stream-Seq", "Stream-TTL", "Producer-Epoch", "Producer-Id", "Producer-Seq", "X-Request-Id",
)  # fmt: skip
"""What a browser may send from another origin."""
EXPOSED_HEADERS = (
    "ETag", "Location", "Producer-Epoch", "Producer-Expected-Seq", "Producer-Received-Seq",
    "Producer-Seq", "Stream-Closed", "Stream-Cursor", "Stream-Expires-At", "Stream-Next-Offset",
    "Stream-SSE-Data-Encoding", "Stream-TTL", "Stream-Up-To-Date",
)  # fmt: skip
"""What a page of another origin needs to see."""

MAX_VALUE_LENGTH = 256
MAX_INTEGER = 2**53 - 1
_INTEGER = re.compile(r"[0-9]{1,16}")


def wants_closed(headers: Headers) -> bool:
    """Whether the stream is to be closed; any value but ``true`` counts as absent."""
    return headers.get(CLOSED, "").strip().lower() == "true"


def content_type_of(headers: Headers) -> ContentType | None:
    """The media type of the body; None if nothing was said. Raises `Denied`."""
    header = headers.get("content-type", "").strip()
    if not header:
        return None
    parsed = parse_content_type(header)
    if parsed is None:
        raise Denied(400, "invalid_content_type", "The Content-Type is not a media type.")
    return parsed


def expiry_of(headers: Headers) -> Expiry:
    """When the new stream is to end; raises `Denied`."""
    ttl, instant = headers.get(TTL), headers.get(EXPIRES_AT)
    if ttl is not None and instant is not None:
        raise Denied(400, "invalid_expiry", "Stream-TTL and Stream-Expires-At exclude each other.")
    if ttl is not None:
        return _known(parse_ttl(ttl.strip()), "Stream-TTL must be a whole number of seconds.")
    if instant is not None:
        message = "Stream-Expires-At must be an RFC 3339 timestamp."
        return _known(parse_expires_at(instant.strip()), message)
    return None


def sequence_of(headers: Headers) -> str | None:
    """The writer's own sequence; raises `Denied`."""
    sequence = headers.get(SEQUENCE)
    if sequence is not None and len(sequence) > MAX_VALUE_LENGTH:
        raise Denied(400, "invalid_sequence", "Stream-Seq is longer than 256 characters.")
    return sequence


def producer_of(headers: Headers) -> ProducerMark | None:
    """Which append of which producer this is; raises `Denied`."""
    values = [headers.get(name) for name in (PRODUCER_ID, PRODUCER_EPOCH, PRODUCER_SEQUENCE)]
    name, epoch, sequence = values
    if name is None and epoch is None and sequence is None:
        return None
    if name is None or epoch is None or sequence is None:
        message = "Producer-Id, Producer-Epoch and Producer-Seq come together or not at all."
        raise _bad_producer(message)
    if not 1 <= len(name) <= MAX_VALUE_LENGTH:
        raise _bad_producer("Producer-Id must have 1 to 256 characters.")
    return ProducerMark(name, _integer("Producer-Epoch", epoch), _integer("Producer-Seq", sequence))


def _integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text) or int(text) > MAX_INTEGER:
        raise _bad_producer(f"{name} must be a whole number of at most 2^53 - 1.")
    return int(text)


def _bad_producer(message: str) -> Denied:
    return Denied(400, "invalid_producer", message)


def _known(expiry: Expiry, message: str) -> Expiry:
    if expiry is None:
        raise Denied(400, "invalid_expiry", message)
    return expiry
