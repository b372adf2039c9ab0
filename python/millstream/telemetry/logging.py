"""Structured logs, an event a line: JSON for machines, key=value for a terminal.

An event is a word of its own (`engine_ready`) with typed fields beside it, never a sentence with
values inside.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, TextIO

from millstream.telemetry.timestamps import rfc3339

Field = str | int | float | bool | None
Cause = BaseException | None
Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "json", "text"]

ROOT = "millstream"
_FIELDS = "millstream_fields"
SHOWN_OF_STREAM = 8
"""Characters of a stream's name that a log may show, enough to tell streams apart."""
_NEEDS_QUOTES = re.compile(r'[\s="\\]|^$')


class Logger:
    """Logs events of one module; get it with `get_logger`."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, **fields: Field) -> None:
        """For whoever looks for a fault."""
        self._log(logging.DEBUG, event, None, fields)

    def info(self, event: str, **fields: Field) -> None:
        """What an operator wants to know on a good day."""
        self._log(logging.INFO, event, None, fields)

    def warning(self, event: str, *, error: Cause = None, **fields: Field) -> None:
        """Something is wrong and the server copes."""
        self._log(logging.WARNING, event, error, fields)

    def error(self, event: str, *, error: Cause = None, **fields: Field) -> None:
        """Something failed; ``error`` adds its traceback."""
        self._log(logging.ERROR, event, error, fields)

    def _log(self, level: int, event: str, error: Cause, fields: dict[str, Field]) -> None:
        if self._logger.isEnabledFor(level):
            if "stream" in fields:
                # Whoever knows the whole name can read the stream.
                fields["stream"] = str(fields["stream"])[:SHOWN_OF_STREAM]
            self._logger.log(level, event, extra={_FIELDS: fields}, exc_info=_exc_info(error))


def get_logger(name: str) -> Logger:
    """The logger of a module; ``name`` is its `__name__`."""
    return Logger(logging.getLogger(name))


def setup(level: Level = "info", format: Format = "auto", stream: TextIO | None = None) -> None:
    """Sends every event of the package to ``stream`` (standard error).

    Only the server calls this: a library leaves the choice to the application.
    """
    target = stream or sys.stderr
    as_text = format == "text" or (format == "auto" and target.isatty())
    handler = logging.StreamHandler(target)
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    logger = logging.getLogger(ROOT)
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `ts`, `level`, `event`, `logger`, then the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Renders one record; never more than one line."""
        line = {"ts": _timestamp(record), "level": record.levelname.lower()}
        line |= {"event": record.getMessage(), "logger": record.name}
        return json.dumps(line | _fields(record), ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """`time level event key=value ...`, for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Renders one record; never more than one line."""
        head = f"{_timestamp(record)} {record.levelname.lower():7} {record.getMessage()}"
        pairs = (f"{key}={_text(value)}" for key, value in _fields(record).items())
        return " ".join((head.replace("\n", "\\n"), *pairs))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = dict(getattr(record, _FIELDS, {}))
    if record.exc_info:
        fields["error"] = logging.Formatter().formatException(record.exc_info)
    return fields


def _timestamp(record: logging.LogRecord) -> str:
    return rfc3339(datetime.fromtimestamp(record.created, UTC))


def _text(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if _NEEDS_QUOTES.search(text) else text


def _exc_info(
    error: Cause,
) -> tuple[type[BaseException], BaseException, TracebackType | None] | None:
    return None if error is None else (type(error), error, error.__traceback__)
