"""Clients that lose their connection together come back apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

RETRY_MS = (2500, 4500)


def retry_ms(random: Random) -> int:
    """Milliseconds after which a client should reconnect."""
    return random.randint(*RETRY_MS)
