"""The parts put together: what each setting reaches, and what is given back at the end."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest

from millstream import app as assembly
from millstream.admission import Demand
from millstream.api.health import HUNG_STEP_NS
from millstream.api.services import Services
from millstream.config import Settings, load_settings
from millstream.errors import ConfigError
from millstream.streams.response import DIRECT_SEND
from millstream.telemetry.diagnostics import usable_processors
from tests.unit.scripted_engine import ScriptedEngine


async def test_the_settings_reach_the_engine(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    assert engine.name == "local"
    assert engine.options is not None
    assert (engine.options.max_batch, engine.options.dtype) == (3, "bfloat16")
    assert engine.options.threads == usable_processors()


async def test_every_model_is_listed_and_found(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["m", "limited"]
    assert (await client.get("/v1/models/limited")).json() == listed["data"][1]
    assert (await client.get("/v1/models/none")).status_code == 404


async def test_readiness_follows_the_engines(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    assert (await client.get("/readyz")).json() == {
        "status": "ready",
        "draining": False,
        "engines": {"local": True},
    }
    engine.ready = False
    assert (await client.get("/readyz")).status_code == 503
    assert (await client.get("/healthz")).status_code == 200


async def test_an_engine_that_hangs_is_not_ready(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    # vLLM#42897: the process lived and its step never ended.
    engine.idle_ns = HUNG_STEP_NS
    assert (await client.get("/readyz")).status_code == 200
    engine.idle_ns += 1
    assert (await client.get("/readyz")).status_code == 503
    engine.idle_ns, engine.answers = 0, False
    assert (await client.get("/readyz")).status_code == 503


async def test_a_worker_that_was_told_to_leave_is_not_ready_and_takes_nothing(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    assert callable(handler)
    handler(signal.SIGTERM, None)
    ready = await client.get("/readyz")
    assert (ready.status_code, ready.json()["draining"]) == (503, True)
    answer = await client.post("/v1/completions", json={"model": "m", "prompt": "a"})
    assert answer.status_code == 503


async def test_the_metrics_show_streams_and_engines(client: httpx.AsyncClient) -> None:
    await client.post("/v1/completions", json={"model": "m", "prompt": "a"})
    text = (await client.get("/metrics")).text
    assert 'millstream_active_streams{model="m"} 0.0' in text
    assert 'millstream_engine_batch_size{engine="local"} 2.0' in text
    assert 'millstream_kv_blocks{engine="local"} 9.0' in text
    counted = 'millstream_requests_total{model="m",outcome="completed",route="text_completion"} 1.0'
    assert counted in text


async def test_every_answer_names_its_request(client: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/v1/models/none", "/nothing"):
        answer = await client.get(path, headers={"x-request-id": "mine"})
        assert answer.headers["x-request-id"] == "mine"


async def test_two_workers_with_limits_do_not_start(
    settings: Settings, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # slowapi#226, flask-limiter#166: 8 workers, 5/min: 5 in total, or refusal to start.
    monkeypatch.setattr("millstream.assembly.admission.PATIENCE_SECONDS", 0)
    first, second = assembly.create_app(settings), assembly.create_app(settings)
    async with first.router.lifespan_context(first):
        with pytest.raises(ConfigError, match=r"server\.workers = 1"):
            async with second.router.lifespan_context(second):
                pass


async def test_a_lease_lives_as_long_as_the_longest_stream_may(
    tmp_path: Path, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.toml"
    path.write_text(
        '[models.m]\nroutes = [{ engine = "local" }]\ntimeouts = { total_seconds = 86400 }\n'
        "limits = { concurrency = 1 }\n"
    )
    now = [0]
    monkeypatch.setattr(assembly, "monotonic_ns", lambda: now[0])
    app = assembly.create_app(load_settings(path, environ={}))
    async with app.router.lifespan_context(app):
        services: Services = app.state.services
        admission = services.orchestrator.admission
        assert await admission.admit([Demand("default", "m", 1)])
        now[0] = 86_400 * 1_000_000_000
        assert not await admission.admit([Demand("default", "m", 1)])


async def test_a_stream_is_sent_past_the_layers_of_the_app() -> None:
    seen: list[object] = []

    async def inner(scope: object, receive: object, send: object) -> None:
        assert isinstance(scope, dict)
        seen.append(scope[DIRECT_SEND])

    app = assembly.App()
    app.middleware_stack = inner

    async def receive() -> dict[str, object]:
        return {}

    async def send(message: object) -> None:
        pass

    await app({"type": "http"}, receive, send)
    assert seen == [send]
