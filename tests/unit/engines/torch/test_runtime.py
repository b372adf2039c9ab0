"""The runtime directory: its place, its mode, its locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.runtime import (
    RuntimeDirectory,
    holding,
    runtime_directory,
    take_lock,
)
from millstream.errors import ConfigError

OPTIONS = EngineOptions(model="m")


def test_equal_options_have_one_place_and_others_another() -> None:
    same = EngineOptions.from_json(OPTIONS.to_json())
    assert runtime_directory(OPTIONS).path == runtime_directory(same).path
    other = EngineOptions(model="m", threads=3)
    assert runtime_directory(OPTIONS).path != runtime_directory(other).path


def test_the_place_is_under_the_users_runtime_directory_if_there_is_one(tmp_path: Path) -> None:
    environment = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert runtime_directory(OPTIONS, environment).path.parent == tmp_path
    for environment in ({}, {"XDG_RUNTIME_DIR": ""}, {"XDG_RUNTIME_DIR": str(tmp_path / "none")}):
        assert runtime_directory(OPTIONS, environment).path.parent == Path("/tmp")
    assert f"-{os.geteuid()}-" in runtime_directory(OPTIONS, {}).path.name


def test_the_directory_is_made_for_its_user_alone_and_found_again(tmp_path: Path) -> None:
    directory = RuntimeDirectory(tmp_path / "engine")
    directory.prepare()
    assert directory.path.stat().st_mode & 0o777 == 0o700
    directory.prepare()


def test_a_directory_that_is_open_to_others_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "engine"
    path.mkdir()
    path.chmod(0o750)
    with pytest.raises(ConfigError, match="must not be open to others"):
        RuntimeDirectory(path).prepare()


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "engine").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match="not a directory of this user"):
        RuntimeDirectory(tmp_path / "engine").prepare()


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too long"):
        RuntimeDirectory(tmp_path / ("x" * 100)).prepare()


def test_a_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holding(path) as first:
        assert first
        with holding(path) as second:
            assert not second
    with holding(path) as again:
        assert again


def test_a_lock_survives_a_fork_and_is_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import os, sys, time; from pathlib import Path;"
        "from millstream.engines.torch.runtime import take_lock;"
        f"assert take_lock(Path({str(path)!r})) is not None;"
        "pid = os.fork();"
        "print(pid, flush=True) if pid else (os.close(1), time.sleep(60))"
    )
    parent = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    child = int(parent.stdout)
    assert take_lock(path) is None
    os.kill(child, signal.SIGKILL)
    while (descriptor := take_lock(path)) is None:
        os.sched_yield()
    os.close(descriptor)


def test_the_log_tail_is_bounded_and_empty_without_a_log(tmp_path: Path) -> None:
    directory = RuntimeDirectory(tmp_path)
    assert directory.log_tail() == ""
    directory.log.write_text("x" * 10_000 + "\nthe end\n")
    assert directory.log_tail().endswith("the end")
    assert len(directory.log_tail()) <= 4096


@pytest.mark.parametrize(
    ("field", "value"),
    [("threads", 0), ("max_batch", 0), ("kv_tokens", 63), ("max_step_tokens", 32)],
)
def test_options_that_cannot_work_are_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=field):
        EngineOptions(model="m", **{field: value})  # type: ignore[arg-type]


def test_a_step_is_longer_on_an_accelerator_and_always_has_room_for_prompts() -> None:
    assert OPTIONS.step_tokens(accelerated=True) > OPTIONS.step_tokens(accelerated=False)
    assert EngineOptions(model="m", max_batch=4096).step_tokens(accelerated=False) > 4096
    assert EngineOptions(model="m", max_step_tokens=40).step_tokens(accelerated=True) == 40


def test_options_of_another_form_are_refused() -> None:
    with pytest.raises(ConfigError, match="engine options"):
        EngineOptions.from_json('{"model": 5}')
