"""Granian as `millstream serve` sets it up."""

from __future__ import annotations

import math
from collections.abc import Callable
from threading import Thread

from granian import Granian
from granian.constants import HTTPModes, Interfaces, Loops
from granian.log import LogLevels

from millstream.cli.announce import announce
from millstream.config import Settings

# Beyond the drain deadline, at which the app ends its streams by itself, so that a worker is
# killed only if it hangs.
KILL_MARGIN_SECONDS = 5


class _Server(Granian):  # type: ignore[misc, valid-type] # chosen at run time by Granian
    """Granian, with a word to whoever started it once the workers are up."""

    def __init__(self, *, started: Callable[[], None], **options: object) -> None:
        super().__init__("millstream.asgi:app", **options)
        self._started = started

    def startup(self, spawn_target: object, target_loader: object) -> None:
        """Starts the workers; the thread comes after them because they are forks."""
        super().startup(spawn_target, target_loader)
        Thread(target=self._started, name="announce", daemon=True).start()


def run(settings: Settings, address: str, port: int) -> None:
    """Serves until a signal stops it; exits with status 1 if the workers cannot be kept up."""
    _Server(
        started=lambda: announce(settings, address, port),
        **granian_options(settings, address, port),
    ).serve()


def granian_options(settings: Settings, address: str, port: int) -> dict[str, object]:
    """The settings in Granian's terms."""
    server = settings.server
    return {
        "address": address,
        "port": port,
        "interface": Interfaces.ASGI,
        "workers": server.workers,
        # `auto` would prefer the experimental rloop where it is installed.
        "loop": Loops.uvloop,
        "http": HTTPModes.auto,
        "websockets": False,
        # A permit per connection, held by every stream and every idle keep-alive.
        "backpressure": server.max_connections,
        "backlog": max(1024, server.max_connections),
        "respawn_failed_workers": True,
        "workers_kill_timeout": math.ceil(server.drain_seconds) + KILL_MARGIN_SECONDS,
        "log_level": LogLevels.warning,
    }
