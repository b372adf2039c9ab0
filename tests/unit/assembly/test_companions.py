"""Whether a worker is alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from millstream.assembly.companions import companions

HOLD = """
import sys
from pathlib import Path
from millstream.assembly.companions import companions
with companions(Path(sys.argv[1])) as others:
    print(others.several(), flush=True)
    sys.stdin.read()
"""


def other(directory: Path) -> subprocess.Popen[str]:
    """Another worker, which says whether it sees one, and lives until its input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_worker_sees_another_one_while_it_lives(tmp_path: Path) -> None:
    with companions(tmp_path) as others:
        assert not others.several()
        process = other(tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert others.several()
        process.kill()
        process.communicate()
        # Its file is still there, its lock is not.
        assert len(os.listdir(tmp_path)) == 2
        assert not others.several()


def test_who_leaves_takes_its_file_along(tmp_path: Path) -> None:
    with companions(tmp_path):
        assert os.listdir(tmp_path)
    assert os.listdir(tmp_path) == []


def test_two_apps_of_one_process_are_two_workers(tmp_path: Path) -> None:
    # The second one waited for the first one's lock, for ever.
    with companions(tmp_path) as first:
        with companions(tmp_path) as second:
            assert first.several()
            assert second.several()
        assert not first.several()


async def test_a_worker_is_alone_once_the_one_before_it_is_gone(tmp_path: Path) -> None:
    with companions(tmp_path) as others:
        process = other(tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert not await others.left_alone(patience_seconds=0)
        process.kill()
        # Until it has died it is still seen.
        assert await others.left_alone(patience_seconds=30)
        process.communicate()


def test_workers_of_other_servers_are_no_companions(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with companions(tmp_path / "a") as first, companions(tmp_path / "b") as second:
        assert not first.several()
        assert not second.several()
