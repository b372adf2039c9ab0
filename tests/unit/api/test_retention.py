"""What one worker remembers is nothing to another one."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from starlette.types import ASGIApp

from millstream.api.services import Services
from tests.unit.api.test_streams import ASKED, STREAMS
from tests.unit.scripted_engine import ScriptedEngine

COMPLETIONS = "/v1/completions"


@pytest.fixture
def crowded(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client of a worker that is not alone."""
    app: ASGIApp = client._transport.app  # type: ignore[attr-defined]
    services: Services = app.state.services  # type: ignore[attr-defined]
    app.state.services = replace(services, several_workers=lambda: True)  # type: ignore[attr-defined]
    return client


@pytest.mark.parametrize(
    ("path", "fields", "headers", "param"),
    [
        (STREAMS, {}, {}, "resumable"),
        (STREAMS, {"resumable": False}, {"Idempotency-Key": "k"}, "Idempotency-Key"),
        (COMPLETIONS, {"stream": True, "stream_options": {"resumable": True}}, {}, "resumable"),
        (COMPLETIONS, {"stream": True, "stream_options": {"integrity": True}}, {}, "resumable"),
        (COMPLETIONS, {"stream": True}, {"X-Stream-Resumable": "1"}, "resumable"),
        (COMPLETIONS, {}, {"Idempotency-Key": "k"}, "Idempotency-Key"),
    ],
)
async def test_what_must_be_found_again_is_refused_by_one_worker_of_several(
    crowded: httpx.AsyncClient,
    engine: ScriptedEngine,
    path: str,
    fields: dict[str, object],
    headers: dict[str, str],
    param: str,
) -> None:
    refused = await crowded.post(path, json={**ASKED, **fields}, headers=headers)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["param"] == param
    assert "store.kind" in error["message"]
    assert engine.submitted == []


async def test_what_need_not_be_found_again_is_served(crowded: httpx.AsyncClient) -> None:
    assert (await crowded.post(COMPLETIONS, json=ASKED)).status_code == 200
    plain = await crowded.post(STREAMS, json={**ASKED, "resumable": False})
    assert plain.status_code == 200
