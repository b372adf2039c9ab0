"""The audit trail: who did what, and who was refused what.

A record never holds a credential nor a prompt. Whoever writes one names what happened
(``request``, ``limit_refused``, ``not_authenticated``) and gives plain fields beside it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import Protocol

from millstream.errors import ConfigError
from millstream.telemetry.logging import Field, get_logger
from millstream.telemetry.timestamps import rfc3339

_log = get_logger(__name__)

AUDIT_LOGGER = "millstream.audit"


class AuditLog(Protocol):
    """Takes records; neither raises nor waits for anything but a local write."""

    def record(self, event: str, **fields: Field) -> None:
        """Write one record; fields that are None are left out."""
        ...

    def close(self) -> None:
        """Nothing more will be recorded."""
        ...


class NoAudit:
    """Keeps no records."""

    def record(self, event: str, **fields: Field) -> None:
        """Nothing is written."""

    def close(self) -> None:
        """Nothing was held."""


class LogAudit:
    """Records as events of the logger ``millstream.audit``, whatever level the log has."""

    def __init__(self) -> None:
        self._log = get_logger(AUDIT_LOGGER)
        # A log that shows errors alone is still where the operator has put the audit trail.
        logging.getLogger(AUDIT_LOGGER).setLevel(logging.INFO)

    def record(self, event: str, **fields: Field) -> None:
        """Write one event."""
        self._log.info(event, **_present(fields))

    def close(self) -> None:
        """Nothing was held."""


class FileAudit:
    """Records as JSON objects, one a line, appended to a file that is made with mode 0600.

    Each is one write to a file opened for appending, so the lines of several workers never mix.
    A file that was moved away, as log rotation does, is made anew. A record that cannot be written
    is lost, and the first of a row of them is an error in the log. Raises ConfigError if the file
    cannot be opened to begin with. ``clock`` is in unix nanoseconds.
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], int] = time_ns) -> None:
        self._path = Path(path)
        self._clock = clock
        self._failing = False
        self._torn = False
        try:
            self._file = self._open()
        except OSError as error:
            raise ConfigError(f"audit.path: {self._path}: {error.strerror}") from error

    def record(self, event: str, **fields: Field) -> None:
        """Write one line."""
        moment = datetime.fromtimestamp(self._clock() / 1e9, UTC)
        # ASCII only: whatever a field holds, no reader sees a line end in it.
        line = json.dumps({"ts": rfc3339(moment), "event": event, **_present(fields)}) + "\n"
        try:
            self._write(line.encode())
            self._failing = False
        except OSError as error:
            if not self._failing:
                _log.error("audit_not_written", error=error, path=str(self._path))
            self._failing = True

    def close(self) -> None:
        """Give the file back. Idempotent; a later record opens it again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, line: bytes) -> None:
        if not self._in_place():
            self.close()
            self._file = self._open()
        if self._torn:
            # Whatever is left of the record before must not spoil this one.
            line = b"\n" + line
        written = os.write(self._file, line)
        self._torn = 0 < written < len(line)
        if written < len(line):
            raise OSError(f"only {written} of {len(line)} bytes were written")

    def _in_place(self) -> bool:
        if self._file < 0:
            return False
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        ours = os.fstat(self._file)
        return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _present(fields: dict[str, Field]) -> dict[str, Field]:
    return {name: value for name, value in fields.items() if value is not None}
