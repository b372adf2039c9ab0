"""Pages of other origins."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from millstream.config import Settings, load_settings
from millstream.errors import ConfigError
from tests.unit.api.test_streams import ASKED, STREAMS
from tests.unit.conftest import CONFIG

PAGE = "https://app.example"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "millstream.toml"
    path.write_text(f'{CONFIG}\n[server]\ncors_origins = ["{PAGE}", "http://localhost:3000"]\n')
    return load_settings(path, environ={})


async def test_a_page_that_is_named_reads_streams_and_their_headers(
    client: httpx.AsyncClient,
) -> None:
    answered = await client.post(STREAMS, json=ASKED, headers={"origin": PAGE})
    assert answered.headers["access-control-allow-origin"] == PAGE
    exposed = answered.headers["access-control-expose-headers"]
    assert {"X-Stream-Id", "Link", "Idempotent-Replayed"} <= set(exposed.split(", "))
    refused = await client.get(f"{STREAMS}/unknown", headers={"origin": PAGE})
    assert refused.status_code == 404
    assert refused.headers["access-control-allow-origin"] == PAGE


async def test_a_page_that_is_not_named_is_told_nothing(client: httpx.AsyncClient) -> None:
    answered = await client.get("/v1/models", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answered.headers


async def test_a_preflight_allows_what_clients_send(client: httpx.AsyncClient) -> None:
    asked = {
        "origin": PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, idempotency-key, x-stream-resumable",
    }
    answered = await client.options(STREAMS, headers=asked)
    assert answered.status_code == 200
    allowed = answered.headers["access-control-allow-headers"].lower()
    assert "idempotency-key" in allowed
    refused = await client.options(STREAMS, headers={**asked, "origin": "https://evil.example"})
    assert refused.status_code == 400


@pytest.mark.parametrize(
    "origin",
    ["app.example", "https://app.example/", "HTTPS://app.example", "https://*.example", ""],
)
def test_an_origin_that_no_browser_sends_is_a_mistake(tmp_path: Path, origin: str) -> None:
    path = tmp_path / "millstream.toml"
    path.write_text(f'[server]\ncors_origins = ["{origin}"]\n')
    with pytest.raises(ConfigError, match="cors_origins"):
        load_settings(path, environ={})
