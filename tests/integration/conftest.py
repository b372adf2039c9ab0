"""What several of these tests stand on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.stand import Stand


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    path = tempfile.mkdtemp(prefix="millstream-")
    stand = Stand(Path(path))
    stand.loaded()
    yield stand
    await stand.close()
    shutil.rmtree(path)
