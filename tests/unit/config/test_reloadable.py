"""What a running server takes over, and what it names as needing a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config import Settings, load_settings
from millstream.config.reloadable import reloaded, restart_needed

RUNNING = """
[engines.local]
[models.m]
routes = [{ engine = "local" }]
[tenants.a]
models = ["m"]
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return changed(tmp_path, RUNNING)


def changed(folder: Path, text: str) -> Settings:
    path = folder / "one.toml"
    path.write_text(text)
    return load_settings(path, environ={})


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("[limits]\nconcurrency = 7", "limits"),
        ("[streams]\nretention_seconds = 7", "streams"),
        ("[tenants.b]\npriority = 1", "tenants"),
        ('[auth]\nroles.mobile = ["read:*"]', "auth"),
        ('[auth]\ndefault_tenant = "a"', "auth"),
        ("[models.m.limits]\nconcurrency = 7", "models"),
        ("[models.m.timeouts]\nidle_seconds = 7", "models"),
        ("[models.m.streams]\nmax_records = 77", "models"),
    ],
)
def test_what_holds_for_new_requests_is_taken_over(
    tmp_path: Path, settings: Settings, table: str, where: str
) -> None:
    wanted = changed(tmp_path, f"{RUNNING}\n{table}")
    target = reloaded(settings, wanted)
    assert target == wanted
    assert getattr(target, where) != getattr(settings, where)
    assert restart_needed(settings, wanted) == ()


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        ("[server]\nport = 9\ndrain_seconds = 9", ("server.port", "server.drain_seconds")),
        ("[engines.other]\nthreads = 1", ("engines.other",)),
        ('[models."m-2"]\nroutes = [{ engine = "local" }]', ("models.m-2",)),
        ('[store]\nkind = "valkey"', ("store.kind",)),
        ("[streams]\ncoalesce_ms = 9", ("streams.coalesce_ms",)),
        ("[reload]\nwatch_file = false", ("reload.watch_file",)),
        (
            '[auth]\nmode = "required"\nkeys_file = "k"\njwt = '
            '{ algorithms = ["RS256"], jwks_file = "j" }',
            ("auth.mode", "auth.jwt", "auth.keys_file"),
        ),
    ],
)
def test_anything_else_stays_as_it_is_and_is_named(
    tmp_path: Path, settings: Settings, table: str, keys: tuple[str, ...]
) -> None:
    wanted = changed(tmp_path, f"{RUNNING}\n{table}\n[limits]\nconcurrency = 7")
    target = reloaded(settings, wanted)
    assert restart_needed(settings, wanted) == keys
    assert target.limits == wanted.limits
    assert target.model_copy(update={"limits": settings.limits}) == settings


def test_a_model_that_is_gone_goes_on_as_it_was(tmp_path: Path, settings: Settings) -> None:
    wanted = changed(
        tmp_path, '[engines.local]\n[models.new]\nroutes = [{ engine = "local" }]\nmax_tokens = 5'
    )
    assert reloaded(settings, wanted).models == settings.models
    assert restart_needed(settings, wanted) == ("models.m", "models.new")


def test_a_route_of_a_model_needs_a_restart_and_its_limits_do_not(
    tmp_path: Path, settings: Settings
) -> None:
    text = RUNNING.replace('"local" }]', '"other" }]\nlimits = { concurrency = 7 }')
    wanted = changed(tmp_path, f"[engines.other]\n{text}")
    assert restart_needed(settings, wanted) == ("engines.other", "models.m.routes")
    target = reloaded(settings, wanted)
    assert target.models["m"].routes == settings.models["m"].routes
    assert target.models["m"].limits.concurrency == 7
