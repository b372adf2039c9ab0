"""What is shown of the settings in force, and what is not."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from millstream import app as assembly
from millstream.api.services import Services
from millstream.config import Settings, load_settings
from tests.unit.scripted_engine import ScriptedEngine

SECRET = "hunter2"
CONFIG = f"""
[engines.local]
[models.m]
routes = [{{ engine = "local" }}]
[limiter]
url = "valkey://:{SECRET}@limits/0"
[store]
url = "valkey://h/0?password={SECRET}"
[reload]
url = "valkey://user:{SECRET}@shared/0"
[auth]
mode = "off"
jwt = {{ algorithms = ["HS256"], secret_env = "JWT_SECRET" }}
keys_file = "/etc/keys.json"
[tenants.acme]
tier = "P2"
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "millstream.toml"
    path.write_text(CONFIG)
    return load_settings(path, environ={})


async def test_the_settings_in_force_are_shown_without_their_secrets(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JWT_SECRET", SECRET)
    answered = await client.get("/admin/config")
    assert answered.status_code == 200
    assert answered.headers["cache-control"] == "no-store"
    assert SECRET not in answered.text
    shown = answered.json()
    assert (shown["revision"], shown["last_error"], shown["restart_needed"]) == (1, None, [])
    assert shown["loaded_at"].endswith("Z")
    settings = shown["settings"]
    assert settings["limiter"]["url"] == "valkey://:***@limits/0"
    assert settings["auth"]["jwt"]["secret_env"] == "JWT_SECRET"
    assert settings["tenants"]["acme"]["tier"] == "P2"


async def test_what_was_wrong_and_what_needs_a_restart_is_shown(
    engine: ScriptedEngine, settings: Settings
) -> None:
    app = assembly.create_app(settings)
    async with app.router.lifespan_context(app):
        services: Services = app.state.services
        port = settings.server.model_copy(update={"port": 9})
        limits = settings.limits.model_copy(update={"concurrency": 3})
        changed = settings.model_copy(update={"server": port, "limits": limits})
        services.live.replace(services.live.change(changed), source="file")
        services.live.refuse("file", f"store.url: not 'valkey//:{SECRET}@h'")
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            shown = (await client.get("/admin/config")).json()
    assert shown["revision"] == 2
    assert shown["source"] == "file"
    assert shown["restart_needed"] == ["server.port"]
    assert shown["last_error"] == "file: store.url: not 'valkey//:***@h'"
    assert shown["settings"]["limits"]["concurrency"] == 3
    assert shown["settings"]["server"]["port"] == 8000
