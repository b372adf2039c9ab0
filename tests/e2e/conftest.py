"""One server with the real model for the whole session; tests that break things start their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import openai
import pytest

from millstream.cli.descriptors import raise_descriptor_limit
from tests.e2e.servers import (
    ENGINE,
    PATIENCE_SECONDS,
    Server,
    free_port,
    millstream_command,
    serving,
)
from tests.waiting import until

CONFIG = (
    ENGINE
    + """
[models.two-a-minute]
routes = [{ engine = "local" }]
limits = { requests = { per_second = 1, burst = 2 }, tokens = { limit = 400, window_ms = 60000 } }

[models.hundred-tokens-a-minute]
routes = [{ engine = "local" }]
limits = { requests = { per_second = 1000 }, tokens = { limit = 100, window_ms = 60000 } }

[models.one-at-a-time]
routes = [{ engine = "local" }]
limits = { concurrency = 1 }

[models.one-after-another]
routes = [{ engine = "local" }]
limits = { concurrency = 1, queue = { max_waiting = 8, deadline_seconds = 60 } }

[models.one-waits]
routes = [{ engine = "local" }]
limits = { concurrency = 1, queue = { max_waiting = 1, deadline_seconds = 60 } }

[models.four-hundred-tokens-a-minute]
routes = [{ engine = "local" }]
limits = { tokens = { limit = 400, window_ms = 60000 } }

[models.every-ten-seconds]
routes = [{ engine = "local" }]
limits = { requests = { per_minute = 6, burst = 1 } }

[models.hasty]
routes = [{ engine = "local" }]
timeouts = { total_seconds = 0.5 }

[models.short-memory]
routes = [{ engine = "local" }]
streams = { max_records = 64 }

[models.short-grace]
routes = [{ engine = "local" }]
streams = { detach_grace_seconds = 0.5 }

[models.short-retention]
routes = [{ engine = "local" }]
streams = { retention_seconds = 0.5 }

[server]
body_seconds = 5

[streams]
keep_alive_seconds = 0.3
blocked_send_seconds = 2
"""
)


@pytest.fixture(scope="session", autouse=True)
def _descriptors() -> None:
    """A thousand clients are a thousand sockets."""
    raise_descriptor_limit()


@pytest.fixture(scope="session", autouse=True)
def _patience() -> Iterator[None]:
    """httpx gives up after 5 s where a call says nothing; a busy machine is no error."""
    with pytest.MonkeyPatch.context() as patch:
        for phase in ("connect", "read", "write", "pool"):
            patch.setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, phase, PATIENCE_SECONDS)
        yield


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with the demo model under several names."""
    path = tmp_path_factory.mktemp("config") / "millstream.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="session")
def server(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """``millstream serve``, ready."""
    port = free_port()
    folder = tmp_path_factory.mktemp("server")
    with serving(millstream_command(port, config), port=port, folder=folder) as running:
        yield running


@pytest.fixture
def idle(server: Server) -> Iterator[Server]:
    """The shared server; after the test its engine must have nothing left to do."""
    yield server
    assert_idle(server)


@pytest.fixture
def client(idle: Server) -> Iterator[openai.OpenAI]:
    """openai-python on the shared server."""
    with openai.OpenAI(base_url=f"{idle.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(idle: Server) -> AsyncIterator[openai.AsyncOpenAI]:
    """The same for asyncio."""
    async with openai.AsyncOpenAI(
        base_url=f"{idle.url}/v1", api_key="none", max_retries=0
    ) as client:
        yield client


def assert_idle(server: Server) -> None:
    """No stream, no sequence, no page is left behind."""

    until(lambda: server.metric("millstream_active_streams") == 0, what="streams released")
    until(lambda: server.metric("millstream_engine_batch_size") == 0, what="engine idle")
