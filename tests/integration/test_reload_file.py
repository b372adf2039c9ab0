"""One instance and its file."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.assembly.companions import companions
from tests.integration.reload_instances import MODELS, Instances, until_limit, with_limit
from tests.waiting import until_true


@pytest.fixture
async def instances(tmp_path: Path) -> AsyncIterator[Instances]:
    instances = Instances(tmp_path)
    yield instances
    await instances.close()


async def test_a_changed_file_takes_effect(instances: Instances) -> None:
    live = await instances.start("a", with_limit(1))
    instances.file("a").write_text(with_limit(2, "[tenants.acme]\npriority = 0\n"))
    settings = await until_limit(live, 2)
    assert settings.tenants["acme"].priority == 0
    assert (live.revision, live.source, live.last_error) == (2, str(instances.file("a")), None)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("[limits\n", "is not TOML"),
        ("", "is empty"),
        ("[tenants.acme]\nprioritty = 1\n", "did you mean `priority`?"),
        ('[tenants.acme]\nmodels = ["n"]\n', "there is no model `n`"),
        ("x = " + "[" * 100_000, "nested too deeply"),
        ("[limits.tokens]\nlimit = 1\nwindow_ms = 1\n", "window_ms: must be greater"),
    ],
    ids=["toml", "empty", "key", "model", "nested", "range"],
)
async def test_a_broken_file_keeps_the_old_one_and_says_so_once(
    instances: Instances, caplog: pytest.LogCaptureFixture, broken: str, reason: str
) -> None:
    live = await instances.start("a", with_limit(1))
    before = live.current
    with caplog.at_level(logging.INFO, "millstream"):
        instances.file("a").write_text(broken)
        await until_true(lambda: live.last_error is not None)
        assert reason in (live.last_error or "")
        assert live.current is before
        assert live.revision == 1
        assert [record.message for record in caplog.records] == ["config_refused"]
        instances.file("a").write_text(with_limit(2))
        await until_limit(live, 2)
    assert live.last_error is None


async def test_a_file_that_vanishes_keeps_the_old_one_and_says_so(instances: Instances) -> None:
    live = await instances.start("a", with_limit(1))
    instances.file("a").unlink()
    await until_true(lambda: live.last_error is not None)
    assert "cannot be read" in (live.last_error or "")
    instances.file("a").write_text(with_limit(2))
    await until_limit(live, 2)


async def test_a_file_that_comes_back_as_it_was_is_no_longer_wrong(instances: Instances) -> None:
    live = await instances.start("a", with_limit(1))
    path, away = instances.file("a"), instances.file("a").with_suffix(".away")
    path.rename(away)
    await until_true(lambda: live.last_error is not None)
    away.rename(path)
    await until_true(lambda: live.last_error is None)
    assert live.revision == 1


async def test_a_broken_file_that_comes_back_as_it_was_is_as_wrong_as_before(
    instances: Instances,
) -> None:
    live = await instances.start("a", with_limit(1))
    path, away = instances.file("a"), instances.file("a").with_suffix(".away")
    path.write_text("[limits\n")
    await until_true(lambda: "is not TOML" in (live.last_error or ""))
    path.rename(away)
    await until_true(lambda: "cannot be read" in (live.last_error or ""))
    away.rename(path)
    await until_true(lambda: "is not TOML" in (live.last_error or ""))


async def test_a_file_that_is_not_text_keeps_the_old_one_and_says_so(instances: Instances) -> None:
    live = await instances.start("a", with_limit(1))
    instances.file("a").write_bytes(b"[limits]\nconcurrency = 2 # \xff\n")
    await until_true(lambda: live.last_error is not None)
    assert "is not UTF-8 (byte 27)" in (live.last_error or "")
    assert live.current.limits.concurrency == 1
    instances.file("a").write_text(with_limit(2))
    await until_limit(live, 2)


async def test_the_same_content_again_is_no_new_revision(instances: Instances) -> None:
    live = await instances.start("a", with_limit(1))
    path = instances.file("a")
    path.write_text(with_limit(1, "# the same\n"))
    path.with_suffix(".new").write_text(with_limit(1))
    os.replace(path.with_suffix(".new"), path)
    path.write_text(with_limit(2))
    await until_limit(live, 2)
    assert live.revision == 2


async def test_the_environment_stays_above_the_file(instances: Instances) -> None:
    live = await instances.start(
        "a", with_limit(1), environ={"MILLSTREAM__STREAMS__RETENTION_SECONDS": "77"}
    )
    instances.file("a").write_text(with_limit(2, "[streams]\nretention_seconds = 5\n"))
    settings = await until_limit(live, 2)
    assert settings.streams.retention_seconds == 77


async def test_what_needs_a_restart_is_named_and_the_rest_applies(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    live = await instances.start("a", with_limit(1))
    with caplog.at_level(logging.INFO, "millstream"):
        instances.file("a").write_text(with_limit(2, "[server]\nport = 9\n"))
        await until_limit(live, 2)
        await until_true(lambda: len(caplog.records) == 2)
    assert live.restart_needed == ("server.port",)
    assert live.current.server.port == 8000
    fields = caplog.records[1].__dict__["millstream_fields"]
    assert (caplog.records[1].message, fields["keys"]) == ("config_needs_restart", "server.port")


async def test_a_change_between_loading_and_watching_is_not_missed(instances: Instances) -> None:
    live = await instances.start("a", with_limit(1))
    # The first look comes after the start has returned.
    instances.file("a").write_text(with_limit(2))
    await until_limit(live, 2)


async def test_limits_that_several_workers_would_each_grant_are_refused(
    instances: Instances, tmp_path: Path
) -> None:
    # Both refuse: where one took the limits over, it alone would limit its clients.
    with companions(tmp_path) as first, companions(tmp_path) as second:
        lives = [
            await instances.start(name, MODELS, several_workers=worker.several)
            for name, worker in (("a", first), ("b", second))
        ]
        for name in "ab":
            instances.file(name).write_text(with_limit(2))
        await until_true(lambda: all(live.last_error for live in lives))
        for live in lives:
            assert "this server has several" in (live.last_error or "")
            assert live.current.limits.concurrency is None
    instances.file("a").write_text(with_limit(3))
    await until_limit(lives[0], 3)
