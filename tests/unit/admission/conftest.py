"""Rooms whose waiters are sent home in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.unit.admission.parts import settle
from tests.unit.admission.room import Room


@pytest.fixture
async def rooms() -> AsyncIterator[list[Room]]:
    """Rooms whose waiters are sent home."""
    made: list[Room] = []
    yield made
    for room in made:
        for task in room.tasks.values():
            task.cancel()
        await asyncio.gather(*room.tasks.values(), return_exceptions=True)
        await settle()
        assert room.admission.waiting == 0
        assert room.clock.pending == 0
