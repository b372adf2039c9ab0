"""The app for ``granian --interface asgi millstream.asgi:app``.

``MILLSTREAM_CONFIG`` names the configuration file; without it the defaults serve the demo model.
"""

from __future__ import annotations

import gc

from millstream.app import create_app
from millstream.config import load
from millstream.telemetry import logging

_loaded = load()
logging.setup(_loaded.settings.log.level, _loaded.settings.log.format)
app = create_app(_loaded)
"""Reads its configuration on import, as every server does that is given this name."""

# What has been made up to here stays: a full collection that goes through all of it would hold up
# every stream for some 30 ms (bench_reload).
gc.collect()
gc.freeze()
