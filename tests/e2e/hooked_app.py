"""The server with a hook that writes down what it hears, for a test in another process."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import msgspec

from millstream.app import create_app
from millstream.config import load_settings
from millstream.middleware import Admitted, Ended, FirstByte, RequestHooks
from millstream.telemetry import logging

HEARD = "HEARD_FILE"
"""Environment variable with the file that events are appended to."""


class Writing(RequestHooks):
    """A JSON object for every event."""

    async def on_admitted(self, event: Admitted) -> None:
        write("admitted", asdict(event))

    async def on_first_byte(self, event: FirstByte) -> None:
        write("first_byte", asdict(event))

    async def on_outcome(self, event: Ended) -> None:
        write("outcome", asdict(event))


def write(name: str, event: dict[str, object]) -> None:
    event["usage"] = msgspec.to_builtins(event.get("usage"))
    with Path(os.environ[HEARD]).open("a") as file:
        file.write(json.dumps({"event": name, **event}) + "\n")


_settings = load_settings()
logging.setup(_settings.log.level, _settings.log.format)
app = create_app(_settings, hooks=[Writing()])
"""For ``granian --interface asgi tests.e2e.hooked_app:app``."""
