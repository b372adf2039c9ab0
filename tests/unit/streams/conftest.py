"""What the stream tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from millstream.streams.hub import Wakeups


@pytest.fixture
async def wakeups() -> AsyncIterator[Wakeups]:
    made = Wakeups()
    yield made
    made.close()
