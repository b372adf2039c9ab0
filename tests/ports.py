"""Ports for servers that are told where to listen."""

from __future__ import annotations

import itertools
import socket
from random import SystemRandom


def free_port() -> int:
    """A port that nobody listens on, and that no connection is given meanwhile."""
    return next(port for port in _PORTS if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# Below those that the system gives to connections. Two runs of the tests begin at their own places.
_PORTS = itertools.count(12_000 + SystemRandom().randrange(16_000))
