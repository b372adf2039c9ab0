"""The routes of durable streams with bounds that a test reaches."""

from __future__ import annotations

from millstream.config import DurableSettings, ServerSettings, StreamSettings
from tests.conformance.durable_app import make_app

STREAM_BYTES = 12 << 20

app = make_app(
    DurableSettings(max_stream_bytes=STREAM_BYTES, max_bytes=24 << 20, long_poll_seconds=20),
    server=ServerSettings(max_body_bytes=4 << 20),
    streams=StreamSettings(blocked_send_seconds=3, keep_alive_seconds=1),
)
"""For ``granian --interface asgi tests.e2e.durable_app:app``."""
