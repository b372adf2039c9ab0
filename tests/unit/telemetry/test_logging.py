from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from millstream.telemetry.logging import Format, Level, get_logger, setup

LOG = get_logger("millstream.tests")


class Terminal(io.StringIO):
    """Text that claims to be read by a person."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored_root() -> Iterator[None]:
    root = logging.getLogger("millstream")
    before = (root.handlers, root.level, root.propagate)
    yield
    root.handlers, root.level, root.propagate = before


def written(format: Format, *, level: Level = "info", stream: io.StringIO | None = None) -> str:
    target = stream or io.StringIO()
    setup(level, format, target)
    LOG.debug("looked", depth=3)
    LOG.info("engine_ready", model="a b", seconds=1.5, warm=True, note=None)
    return target.getvalue()


def test_json_is_one_object_a_line_with_the_fields_beside_the_event() -> None:
    line = json.loads(written("json"))

    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "event": "engine_ready",
        "logger": "millstream.tests",
        "model": "a b",
        "seconds": 1.5,
        "warm": True,
        "note": None,
    }


def test_text_quotes_what_would_not_read_back() -> None:
    text = written("text")

    assert text.endswith(' engine_ready model="a b" seconds=1.5 warm=True note=None\n')


def test_automatic_format_is_text_on_a_terminal_only() -> None:
    assert written("auto").startswith("{")
    assert not written("auto", stream=Terminal()).startswith("{")


def test_events_below_the_level_are_not_written() -> None:
    assert written("json", level="warning") == ""
    assert "looked" in written("json", level="debug")


@pytest.mark.parametrize("format", ["json", "text"])
def test_a_failure_and_a_value_with_newlines_stay_on_one_line(format: Format) -> None:
    stream = io.StringIO()
    setup("info", format, stream)
    try:
        raise RuntimeError("first\nsecond")
    except RuntimeError as error:
        LOG.error("step_failed", error=error, detail="third\nfourth")

    lines = stream.getvalue().splitlines()

    assert len(lines) == 1
    assert "RuntimeError: first" in lines[0]
    assert "Traceback" in lines[0]


def test_setting_up_twice_writes_once() -> None:
    stream = io.StringIO()
    setup("info", "json", io.StringIO())
    setup("info", "json", stream)

    LOG.warning("twice")

    assert len(stream.getvalue().splitlines()) == 1


def test_messages_of_the_standard_library_are_taken_too() -> None:
    stream = io.StringIO()
    setup("info", "json", stream)

    logging.getLogger("millstream.other").warning("%d of %d", 1, 2)

    assert json.loads(stream.getvalue())["event"] == "1 of 2"


def test_the_name_of_a_stream_opens_it_and_is_shown_in_part() -> None:
    target = io.StringIO()
    setup("info", "json", target)
    LOG.warning("stream_sealed", stream="q2Zb0c7V-secret-of-its-reader")

    assert json.loads(target.getvalue())["stream"] == "q2Zb0c7V"
