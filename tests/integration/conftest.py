"""What several of these tests stand on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from millstream.store.valkey import connection, documents
from tests.integration.stand import Stand
from tests.integration.valkey_server import ValkeyServer
from tests.integration.valkey_stores import PATIENT, Workers


@pytest.fixture
async def stand() -> AsyncIterator[Stand]:
    path = tempfile.mkdtemp(prefix="millstream-")
    stand = Stand(Path(path))
    stand.loaded()
    yield stand
    await stand.close()
    shutil.rmtree(path)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers late, on a busy machine, is not away."""
    for module in (connection, documents):
        monkeypatch.setattr(module, "CALL_SECONDS", PATIENT)


@pytest.fixture(scope="session")
def _valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer()
    yield server
    server.close()


@pytest.fixture
def valkey(_valkey: ValkeyServer) -> ValkeyServer:
    """A server that is empty and that nobody kills."""
    _valkey.client.flushall()
    return _valkey


@pytest.fixture
async def workers(valkey: ValkeyServer) -> AsyncIterator[Workers]:
    """Stores on that server."""
    workers = Workers(valkey)
    yield workers
    await workers.close()


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    """A server to kill: what it held is gone then."""
    server = ValkeyServer()
    yield server
    server.close()


@pytest.fixture
def durable_valkey() -> Iterator[ValkeyServer]:
    """A server to kill: what it held is there when it is back."""
    server = ValkeyServer(durable=True)
    yield server
    server.close()
