"""The whole app, but for its engine, which the test scripts."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

from millstream import app as assembly
from millstream.config import Settings, load_settings
from millstream.engines.torch.options import EngineOptions
from millstream.telemetry.shared_files import VARIABLE
from tests.unit.scripted_engine import ScriptedEngine

CONFIG = """
[engines.local]
max_batch = 3

[models.m]
routes = [{ engine = "local" }]
max_tokens = 20

[models.limited]
routes = [{ engine = "local" }]
limits = { tokens = { limit = 40, window_ms = 60000 }, concurrency = 1 }
"""


@pytest.fixture(autouse=True)
def _metrics_files_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The metrics library keeps its files open for good, which is too long for a thousand apps."""
    opened: list[MmapedDict] = []

    def opening(filename: str, read_mode: bool = False) -> MmapedDict:
        opened.append(MmapedDict(filename, read_mode))
        return opened[-1]

    monkeypatch.setattr(values, "MmapedDict", opening)
    yield
    for file in opened:
        file.close()


@pytest.fixture
def _globals_restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What the app takes over for its process: signals, the metrics library's mode."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "millstream.toml"
    path.write_text(CONFIG)
    return load_settings(path, environ={})


@pytest.fixture
def engine(_globals_restored: None, monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    engine = ScriptedEngine()

    def make(name: str, options: EngineOptions, *, hub: object) -> ScriptedEngine:
        engine.name, engine.options = name, options
        return engine

    monkeypatch.setattr("millstream.assembly.engines.TorchEngine", make)
    return engine


@pytest.fixture
async def client(engine: ScriptedEngine, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    app = assembly.create_app(settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield client
    assert engine.closed
    assert os.listdir(os.environ[VARIABLE])
