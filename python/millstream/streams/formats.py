"""The media types of a stream."""

from __future__ import annotations

EVENT_STREAM = "text/event-stream"
NDJSON = "application/x-ndjson"
JSON_LINES = "application/jsonl"
