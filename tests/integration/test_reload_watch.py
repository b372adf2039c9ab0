# ruff: noqa: ASYNC240 - the file is what these tests are about
"""A file that changes, in all the ways in which files are changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from millstream.config.watch import changes
from tests.waiting import HANG_SECONDS


class Watch:
    """What is read of the file at each change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[str | None] = []
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with aclosing(changes(self.path)) as ticks:
            async for _ in ticks:
                self.seen.append(self.path.read_text() if self.path.exists() else None)

    async def until(self, text: str | None) -> None:
        async with asyncio.timeout(HANG_SECONDS):
            while not self.seen or self.seen[-1] != text:  # noqa: ASYNC110 - files tell no loop
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "millstream.toml"
    path.parent.mkdir()
    path.write_text("one")
    return path


@pytest.fixture
async def watch(path: Path) -> AsyncIterator[Watch]:
    watch = Watch(path)
    await watch.until("one")
    yield watch
    await watch.close()


def in_place(path: Path) -> None:
    path.write_text("two")


def by_renaming(path: Path) -> None:
    # As editors do, and whoever wants no reader to see half of it.
    new = path.with_suffix(".new")
    new.write_text("two")
    new.replace(path)


def by_removing_first(path: Path) -> None:
    path.unlink()
    path.write_text("two")


def by_a_file_of_the_same_age(path: Path) -> None:
    status = path.stat()
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def with_its_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("old"))
    path.parent.mkdir()
    path.write_text("two")


@pytest.mark.parametrize(
    "change",
    [in_place, by_renaming, by_removing_first, by_a_file_of_the_same_age, with_its_folder],
)
async def test_a_changed_file_is_noticed(
    watch: Watch, path: Path, change: Callable[[Path], None]
) -> None:
    change(path)
    await watch.until("two")
    path.write_text("three")
    await watch.until("three")


async def test_a_file_that_vanishes_is_noticed_and_so_is_its_return(
    watch: Watch, path: Path
) -> None:
    path.unlink()
    await watch.until(None)
    path.write_text("two")
    await watch.until("two")


async def test_links_that_are_swapped_are_noticed(tmp_path: Path) -> None:
    # A config map: the file is a link into ..data, and ..data is a link that is renamed over.
    folder = tmp_path / "mounted"
    folder.mkdir()
    swap(folder, "one")
    path = folder / "millstream.toml"
    path.symlink_to(Path("..data") / "millstream.toml")
    watch = Watch(path)
    await watch.until("one")
    for text in ("two", "three"):
        swap(folder, text)
        await watch.until(text)
    (folder / "..data" / "millstream.toml").write_text("four")
    await watch.until("four")
    await watch.close()


async def test_a_link_further_up_that_is_swapped_is_noticed(tmp_path: Path) -> None:
    for release, text in (("a", "one"), ("b", "two")):
        (tmp_path / release).mkdir()
        (tmp_path / release / "millstream.toml").write_text(text)
    current = tmp_path / "current"
    current.symlink_to("a")
    watch = Watch(current / "millstream.toml")
    await watch.until("one")
    (tmp_path / "next").symlink_to("b")
    (tmp_path / "next").replace(current)
    await watch.until("two")
    await watch.close()


async def test_links_that_lead_in_a_circle_for_a_while_end_nothing(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "millstream.toml").write_text("one")
    current = tmp_path / "current"
    current.symlink_to("real")
    watch = Watch(current / "millstream.toml")
    await watch.until("one")
    (tmp_path / "circle").symlink_to("current")
    (tmp_path / "circle").replace(current)
    await watch.until(None)
    (tmp_path / "real" / "millstream.toml").write_text("two")
    (tmp_path / "next").symlink_to("real")
    (tmp_path / "next").replace(current)
    await watch.until("two")
    await watch.close()


async def test_a_link_that_is_swapped_while_it_is_followed_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").write_text("one")
    link = tmp_path / "link"
    link.symlink_to("real")
    watch = Watch(link)
    await watch.until("one")
    followed = os.readlink
    gone = [link]

    def swapped(path: Path) -> str:
        if gone:
            raise FileNotFoundError(gone.pop())
        return followed(path)

    monkeypatch.setattr("millstream.config.watch.os.readlink", swapped)
    for text in ("two", "three"):
        (tmp_path / "real").write_text(text)
        await watch.until(text)
    assert not gone
    await watch.close()


async def test_half_of_a_file_is_not_taken_while_the_rest_is_being_written(
    watch: Watch, path: Path
) -> None:
    # A name that is there already, and a writer who never pauses for long.
    with path.open("w", buffering=1) as file:
        for number in range(40):
            file.write(f"{number}\n")
            await asyncio.sleep(0.002)
        file.write("whole")
    whole = "".join(f"{number}\n" for number in range(40)) + "whole"
    await watch.until(whole)
    assert watch.seen == ["one", whole]


async def test_what_happens_beside_the_file_is_no_change(watch: Watch, path: Path) -> None:
    for number in range(3):
        (path.parent / f"log-{number}").write_text("x")
    path.write_text("two")
    await watch.until("two")
    assert watch.seen == ["one", "two"]


def swap(folder: Path, text: str) -> None:
    target = folder / f"..{text}"
    target.mkdir()
    (target / "millstream.toml").write_text(text)
    (folder / "..new").symlink_to(target.name)
    (folder / "..new").replace(folder / "..data")
