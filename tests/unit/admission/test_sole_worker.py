"""One worker keeps limits in memory, never two."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from millstream.admission import sole_worker
from millstream.errors import ConfigError

HOLD = """
import asyncio, pathlib, sys
from millstream.admission import sole_worker

async def main():
    async with sole_worker(pathlib.Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


async def test_a_second_worker_is_refused_and_told_what_to_set(tmp_path: Path) -> None:
    # slowapi#226, flask-limiter#166: 8 workers, 5/min: 5 in total, or refusal to start.
    async with sole_worker(tmp_path):
        with pytest.raises(ConfigError, match=r"server\.workers = 1"):
            async with sole_worker(tmp_path, patience_seconds=0):
                raise AssertionError


async def test_the_place_is_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        async with sole_worker(tmp_path, patience_seconds=0):
            pass


async def test_the_successor_of_a_killed_worker_takes_its_place(tmp_path: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLD,
        str(tmp_path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    with pytest.raises(ConfigError):
        async with sole_worker(tmp_path, patience_seconds=0):
            raise AssertionError
    holder.kill()
    async with sole_worker(tmp_path):
        pass
    await holder.communicate()


async def test_servers_of_their_own_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with sole_worker(tmp_path / "a"), sole_worker(tmp_path / "b", patience_seconds=0):
        pass
