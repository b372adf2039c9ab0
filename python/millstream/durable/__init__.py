"""Durable streams: append-only, read from any offset, live or not; in the memory of one worker.

The protocol is https://github.com/durable-streams/durable-streams, without forks and
subscriptions. Its HTTP is in `millstream.api.durable`.
"""

from __future__ import annotations

from millstream.durable.content_type import OCTET_STREAM, ContentType, parse_content_type
from millstream.durable.producers import ProducerMark
from millstream.durable.refusals import Reason, Refusal
from millstream.durable.registry import Bounds, Created, Creation, StreamRegistry
from millstream.durable.stream import Append, Appended, DurableStream

__all__ = [
    "OCTET_STREAM",
    "Append",
    "Appended",
    "Bounds",
    "ContentType",
    "Created",
    "Creation",
    "DurableStream",
    "ProducerMark",
    "Reason",
    "Refusal",
    "StreamRegistry",
    "parse_content_type",
]
