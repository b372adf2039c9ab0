"""Keeps a worker linked to an engine process: finds it or starts it, and again after a loss."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable

from millstream.engines.torch.backoff import Backoff
from millstream.engines.torch.link import Link, LinkLost, open_link
from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.protocol import Welcome
from millstream.engines.torch.runtime import EXIT_ALREADY_RUNNING, RuntimeDirectory, holding
from millstream.errors import ConfigError, EngineUnavailable
from millstream.telemetry.logging import get_logger

_log = get_logger(__name__)

_FIND_SECONDS = 30.0
"""Within this a process that starts, or one that ends, has made way for a connection."""

_LOAD_SECONDS = 600.0
_RETRY_SECONDS = 0.05


class Supervisor:
    """Calls ``on_up`` with each link that has been welcomed, and ``on_lost`` when it is lost."""

    def __init__(
        self,
        directory: RuntimeDirectory,
        options: EngineOptions,
        *,
        idle_exit_seconds: float,
        on_up: Callable[[Link, Welcome], None],
        on_lost: Callable[[Link], None],
        backoff: Backoff | None = None,
    ) -> None:
        self.fault: str | None = None
        """Why there is no engine, as far as it is known."""
        self._directory = directory
        self._options = options
        self._idle_exit_seconds = idle_exit_seconds
        self._on_up = on_up
        self._on_lost = on_lost
        self._backoff = backoff or Backoff()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            served = 0.0
            try:
                served = await self._serve()
                self.fault = "the engine process has ended"
            except (EngineUnavailable, ConfigError, OSError) as error:
                self.fault = str(error)
            except Exception as error:
                _log.error("engine_not_reached", error=error)
                self.fault = f"the engine could not be reached: {error}"
            delay = self._backoff.failed(served)
            _log.warning("engine_unavailable", fault=self.fault, retry_seconds=round(delay, 3))
            await asyncio.sleep(delay)

    async def _serve(self) -> float:
        """Reach the engine and stay until it is lost; seconds for which it served."""
        link, welcome = await self._reach()
        since = time.monotonic()
        try:
            self._on_up(link, welcome)
            self.fault = None
            _log.info("engine_ready", model=welcome.model, pid=welcome.pid)
            await link.lost.wait()
        except Exception:
            await link.close()
            raise
        return time.monotonic() - since

    async def _reach(self) -> tuple[Link, Welcome]:
        self._directory.prepare()
        link = await self._find_or_start()
        try:
            async with asyncio.timeout(_LOAD_SECONDS):
                welcome = await link.welcomed()
        except LinkLost:
            raise EngineUnavailable(self._with_log("the engine ended while it started")) from None
        except TimeoutError:
            await link.close()
            raise EngineUnavailable("the engine did not load its model in time") from None
        except BaseException:
            await link.close()
            raise
        if link.lost.is_set():
            raise EngineUnavailable("the engine ended right after it had started")
        return link, welcome

    async def _find_or_start(self) -> Link:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _FIND_SECONDS
        while loop.time() < deadline:
            if link := await self._connect():
                return link
            with holding(self._directory.spawn_lock) as ours:
                # Of several workers one starts the process; it may have done so just now.
                if ours:
                    if link := await self._connect():
                        return link
                    await asyncio.to_thread(self._start)
            if link := await self._connect():
                return link
            await asyncio.sleep(_RETRY_SECONDS)
        raise EngineUnavailable("the engine neither answers nor ends")

    async def _connect(self) -> Link | None:
        return await open_link(self._directory.socket, self._on_lost)

    def _start(self) -> None:
        """Start the process; it listens when this returns. Raises `EngineUnavailable`."""
        command = [
            # -P: what lies in the current directory must not shadow a module.
            *(sys.executable, "-P", "-m", "millstream.engines.torch.process", "--detach"),
            *("--runtime-directory", str(self._directory.path)),
            *("--options", self._options.to_json()),
            *("--idle-exit-seconds", str(self._idle_exit_seconds)),
        ]
        done = subprocess.run(  # noqa: S603 - our own module
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_FIND_SECONDS
        )
        if done.returncode not in (0, EXIT_ALREADY_RUNNING):
            said = done.stderr.decode(errors="replace").strip()
            raise EngineUnavailable(f"the engine could not be started: {said}")

    def _with_log(self, message: str) -> str:
        return f"{message}; the end of {self._directory.log}:\n{self._directory.log_tail()}"
