"""Settings that change while others read them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from millstream.config import LiveSettings, Settings, load_settings
from millstream.errors import ConfigError

BASE = '[engines.local]\n[models.m]\nroutes = [{ engine = "local" }]\n'


def settings(folder: Path, text: str = "") -> Settings:
    path = folder / "one.toml"
    path.write_text(BASE + text)
    return load_settings(path, environ={})


def test_a_change_is_a_new_value_with_a_number_a_time_and_a_source(tmp_path: Path) -> None:
    now = [1_000_000_000]
    before = settings(tmp_path)
    live = LiveSettings(before, source="first", wall_clock=lambda: now[0])
    heard: list[Settings] = []
    live.subscribe(heard.append)
    now[0] = 5_000_000_000
    wanted = settings(tmp_path, "[limits]\nconcurrency = 3")
    assert live.replace(live.change(wanted), source="second")
    assert live.current.limits.concurrency == 3
    assert before.limits.concurrency is None
    assert (live.revision, live.source) == (2, "second")
    assert live.loaded_at == datetime.fromtimestamp(5, UTC)
    assert heard == [live.current]


def test_the_same_again_changes_nothing_and_clears_the_error(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path), source="first", wall_clock=lambda: 0)
    live.subscribe(lambda _: pytest.fail("nothing has changed"))
    current = live.current
    live.refuse("x", "broken")
    assert not live.replace(live.change(settings(tmp_path)), source="second")
    assert live.current is current
    assert (live.revision, live.source, live.last_error) == (1, "first", None)


def test_what_needs_a_restart_is_named_until_it_is_taken_back(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path))
    wanted = settings(tmp_path, "[server]\nworkers = 3")
    assert not live.replace(live.change(wanted), source="second")
    assert live.restart_needed == ("server.workers",)
    assert live.current.server.workers == 1
    live.replace(live.change(settings(tmp_path)), source="third")
    assert not live.restart_needed


def test_parts_that_do_not_go_with_what_runs_are_refused_whole(tmp_path: Path) -> None:
    # The file is right by itself, with its one worker; of three each would grant the limit.
    live = LiveSettings(settings(tmp_path, "[server]\nworkers = 3"))
    current = live.current
    wanted = settings(tmp_path, "[limits]\nconcurrency = 3\n[tenants.a]\npriority = 1")
    with pytest.raises(ConfigError, match=r"limits\.concurrency: each worker counts by itself"):
        live.change(wanted)
    assert live.current is current
    assert live.revision == 1


def test_a_tenant_may_wait_for_a_model_that_comes_with_the_restart(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path))
    text = '[models.new]\nroutes = [{ engine = "local" }]\n[tenants.a]\nmodels = ["m", "new"]'
    assert live.replace(live.change(settings(tmp_path, text)), source="second")
    assert live.current.tenants["a"].models == ("m", "new")
    assert live.restart_needed == ("models.new",)


def test_one_subscriber_that_fails_does_not_keep_the_others_from_hearing(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path))
    heard: list[int] = []

    def fail(_: Settings) -> None:
        raise ValueError("broken")

    live.subscribe(fail)
    live.subscribe(lambda _: heard.append(live.revision))
    with pytest.raises(ExceptionGroup, match="not all parts follow"):
        live.replace(live.change(settings(tmp_path, "[limits]\nconcurrency = 3")), source="second")
    assert heard == [2]


def test_who_has_left_hears_no_more(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path))
    leave = live.subscribe(lambda _: pytest.fail("has left"))
    leave()
    live.replace(live.change(settings(tmp_path, "[limits]\nconcurrency = 3")), source="second")


def test_a_reason_is_kept_with_its_source_and_without_secrets(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path))
    live.refuse("f.toml", "store.url: must match, not 'redis//:hunter2@h'")
    assert live.last_error == "f.toml: store.url: must match, not 'redis//:***@h'"
    live.refuse("f.toml", "f.toml: is empty")
    assert live.last_error == "f.toml: is empty"


def test_a_change_beside_settings_that_run_no_more_is_not_taken(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path))
    late = live.change(settings(tmp_path, "[limits]\nconcurrency = 3"))
    live.replace(live.change(settings(tmp_path, "[limits]\nconcurrency = 4")), source="second")
    with pytest.raises(ValueError, match="meanwhile"):
        live.replace(late, source="third")
    assert live.current.limits.concurrency == 4


def test_half_of_a_file_does_not_take_all_roles_away(tmp_path: Path) -> None:
    auth = '[auth]\nmode = "required"\nkeys_file = "keys.jsonl"\n'
    running = settings(tmp_path, auth + 'roles.app = ["chat:create"]\nroles.ops = ["*"]\n')
    live = LiveSettings(running, source="first", wall_clock=lambda: 0)
    for half in ("", auth):
        with pytest.raises(ConfigError, match=r"auth\.roles"):
            live.change(settings(tmp_path, half))
    fewer = settings(tmp_path, auth + 'roles.app = ["chat:create"]\n')
    assert live.replace(live.change(fewer), source="second")


def test_what_a_follower_has_prepared_is_what_it_is_given(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path))
    prepared: list[int | None] = []
    given: list[str] = []

    def prepare(wanted: Settings) -> str:
        prepared.append(wanted.limits.concurrency)
        return f"prepared {wanted.limits.concurrency}"

    leave = live.follow(prepare, given.append)
    change = live.change(settings(tmp_path, "[limits]\nconcurrency = 3"))
    assert (prepared, given) == ([3], [])
    live.replace(change, source="second")
    assert (prepared, given) == ([3], ["prepared 3"])
    leave()
    live.replace(live.change(settings(tmp_path)), source="third")
    assert given == ["prepared 3"]


def test_nothing_is_taken_that_a_follower_cannot_go_by(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path))

    def prepare(_: Settings) -> None:
        raise ConfigError("limits: out of range")

    live.subscribe(lambda _: pytest.fail("one of them cannot"))
    live.follow(prepare, lambda _: pytest.fail("cannot"))
    with pytest.raises(ConfigError, match="out of range"):
        live.change(settings(tmp_path, "[limits]\nconcurrency = 3"))


def test_who_has_come_since_a_change_was_made_hears_of_it(tmp_path: Path) -> None:
    live = LiveSettings(settings(tmp_path))
    change = live.change(settings(tmp_path, "[limits]\nconcurrency = 3"))
    heard: list[Settings] = []
    live.subscribe(heard.append)
    live.replace(change, source="second")
    assert heard == [live.current]
