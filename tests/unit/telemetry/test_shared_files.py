from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.telemetry.shared_files import VARIABLE, metrics_directory, remove_dead_gauges

WORKERS = """
import multiprocessing, os
from millstream.telemetry.shared_files import metrics_directory

def worker():
    print(os.getpid(), metrics_directory(), flush=True)

if __name__ == "__main__":
    for _ in range(2):
        process = multiprocessing.get_context("fork").Process(target=worker)
        process.start()
        process.join()
"""


@pytest.fixture(autouse=True)
def _runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_the_workers_of_one_server_share_a_directory() -> None:
    result = subprocess.run(
        [sys.executable, "-c", WORKERS], capture_output=True, text=True, check=True
    )

    (first_pid, first), (second_pid, second) = (line.split() for line in result.stdout.splitlines())
    assert first_pid != second_pid
    assert first == second


def test_the_directory_belongs_to_this_user_alone() -> None:
    directory = metrics_directory()

    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent.stat().st_mode & 0o777 == 0o700


def test_a_root_that_others_can_write_is_refused(tmp_path: Path) -> None:
    root = tmp_path / f"millstream-metrics-{os.getuid()}"
    root.mkdir()
    root.chmod(0o777)

    with pytest.raises(PermissionError, match="must belong to this user alone"):
        metrics_directory()


def test_a_root_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"millstream-metrics-{os.getuid()}").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PermissionError):
        metrics_directory()


def test_directories_of_servers_that_are_gone_are_removed() -> None:
    own = metrics_directory()
    (own / "counter_1.db").touch()
    recycled = own.with_name(f"{os.getpid()}-1")
    gone = own.with_name(f"{dead_pid()}-12345")
    for directory in (recycled, gone):
        directory.mkdir()
        (directory / "counter_1.db").touch()

    assert metrics_directory() == own

    assert (own / "counter_1.db").exists()
    assert not recycled.exists()
    assert not gone.exists()


def test_the_environment_can_name_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "named" / "here"))

    assert metrics_directory() == tmp_path / "named" / "here"
    assert metrics_directory().is_dir()


def test_only_live_gauges_of_dead_processes_are_removed(tmp_path: Path) -> None:
    dead = dead_pid()
    kept = [
        tmp_path / f"gauge_livesum_{os.getpid()}.db",
        tmp_path / f"counter_{dead}.db",
        tmp_path / f"gauge_max_{dead}.db",
    ]
    removed = [
        tmp_path / f"gauge_livesum_{dead}.db",
        tmp_path / f"gauge_livemostrecent_{dead}.db",
    ]
    for file in kept + removed:
        file.touch()

    remove_dead_gauges(tmp_path)

    assert set(tmp_path.iterdir()) == set(kept)
