"""The access log of the whole app: one line for every request, whoever answers it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message

from millstream import app as assembly
from millstream.config import Settings, load_settings
from millstream.identity.api_keys import new_key
from millstream.identity.key_file import changing
from tests.unit.conftest import CONFIG
from tests.unit.middleware.asgi import request
from tests.unit.scripted_engine import ScriptedEngine

COMPLETIONS = "/v1/completions"
SECRET_NAME = "s" * 32
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


@pytest.fixture
def key(keys_file: Path) -> str:
    with changing(keys_file) as keys:
        text, kept = new_key(keys, tenant="acme", now=1)
        keys[kept.prefix] = kept
    return text


@pytest.fixture
def settings(tmp_path: Path, keys_file: Path, key: str) -> Settings:
    path = tmp_path / "millstream.toml"
    auth = f'[auth]\nmode = "required"\nkeys_file = "{keys_file}"'
    path.write_text("\n".join((CONFIG, auth, "[tenants.acme]", "[log]\naccess = true")))
    return load_settings(path, environ={})


@pytest.fixture
async def app(engine: ScriptedEngine, settings: Settings) -> AsyncIterator[FastAPI]:
    app = assembly.create_app(settings)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    caplog.set_level(logging.INFO, "millstream")
    return lambda: [
        record.__dict__["millstream_fields"]
        for record in caplog.records
        if record.name == "millstream.access"
    ]


async def test_a_request_without_a_credential_has_its_line(
    client: httpx.AsyncClient, lines: Lines
) -> None:
    refused = await client.get(f"/v1/streams/{SECRET_NAME}")
    (line,) = lines()
    assert (line["status"], line["outcome"]) == (401, "refused")
    assert line["request_id"] == refused.headers["x-request-id"]
    assert line["path"] == f"/v1/streams/{SECRET_NAME[:8]}"


async def test_a_request_that_passes_has_no_second_line(
    client: httpx.AsyncClient, lines: Lines, key: str
) -> None:
    await client.get("/v1/models", headers={"authorization": f"Bearer {key}"})
    assert [(line["status"], line["tenant"]) for line in lines()] == [(200, "acme")]


async def test_a_client_that_leaves_before_its_body_is_complete_is_a_499(
    app: FastAPI, lines: Lines, key: str
) -> None:
    exchange = request(
        (b"authorization", f"Bearer {key}".encode()),
        (b"content-type", b"application/json"),
        method="POST",
        path=COMPLETIONS,
    )
    messages: list[Message] = [
        {"type": "http.request", "body": b'{"mod', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    await app(exchange.scope, receive, exchange.send)
    assert exchange.sent == []
    assert [(line["status"], line["outcome"]) for line in lines()] == [(499, "client_gone")]
