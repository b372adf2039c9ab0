"""Instances that load one configuration each and hear of each other's changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from millstream.assembly.reload import Reloader
from millstream.assembly.reload.observer import ReloadObserver, ReloadResult, ReloadSource
from millstream.config import LiveSettings, Settings, load
from tests.integration.valkey_server import ValkeyServer
from tests.waiting import until_true

MODELS = '[engines.local]\n[models.m]\nroutes = [{ engine = "local" }]\n'


def with_limit(concurrency: int, rest: str = "") -> str:
    """A configuration that can be told from others."""
    return f"{MODELS}[limits]\nconcurrency = {concurrency}\n{rest}"


class Seen:
    """What an instance told of its configurations."""

    def __init__(self) -> None:
        self.reloads: list[tuple[ReloadSource, ReloadResult]] = []
        self.revisions: list[int] = []

    def config_reloaded(self, source: ReloadSource, result: ReloadResult) -> None:
        self.reloads.append((source, result))

    def config_revision(self, revision: int) -> None:
        self.revisions.append(revision)


class Instances:
    """Each has a file of its own; those that are given an address share a document there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stacks: list[AsyncExitStack] = []

    def file(self, name: str) -> Path:
        """Where the configuration of this instance is."""
        return self.folder / name / "millstream.toml"

    async def start(
        self,
        name: str,
        text: str | None = None,
        *,
        url: str | None = None,
        environ: dict[str, str] | None = None,
        several_workers: Callable[[], bool] = lambda: False,
        observer: ReloadObserver | None = None,
    ) -> LiveSettings:
        """Begin to follow; ``text`` is what the file says, if it is not there already."""
        path = self.file(name)
        path.parent.mkdir(exist_ok=True)
        if text is not None:
            path.write_text(text)
        channel = {} if url is None else {"MILLSTREAM__RELOAD__URL": url}
        reloader = Reloader(load(path, environ={**channel, **(environ or {})}))
        stack = AsyncExitStack()
        self._stacks.append(stack)
        await reloader.start(stack, several_workers=several_workers, observer=observer)
        return reloader.live

    async def close(self) -> None:
        """End all of them."""
        for stack in self._stacks:
            await stack.aclose()


async def until_limit(live: LiveSettings, concurrency: int) -> Settings:
    """Wait for a configuration of `with_limit`."""
    await until_true(lambda: live.current.limits.concurrency == concurrency)
    return live.current


def listeners(valkey: ValkeyServer, channel: str = "millstream:config") -> int:
    """How many instances listen."""
    return int(valkey.client.pubsub_numsub(channel)[0][1])


def later() -> int:
    """A time in unix nanoseconds, after that of every file."""
    return time.time_ns() + 1
