from __future__ import annotations

import json
import shlex

import pytest

from millstream.cli.address import claim
from millstream.cli.announce import PATIENCE_SECONDS, announce, curl
from millstream.config import load_settings
from tests.unit.cli.local_server import Answer, local_server


class Clock:
    """Time that passes only while somebody sleeps."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_url_comes_first_and_the_command_once_ready(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = iter([503, 503, 200])

    def answer(path: str) -> Answer:
        assert path == "/readyz"
        return next(answers), ""

    clock = Clock()
    with local_server(answer) as port:
        announce(load_settings(environ={}), "127.0.0.1", port, clock=clock, sleep=clock.sleep)

    first, second, third = capsys.readouterr().out.splitlines()
    assert first == f"Millstream listens on http://127.0.0.1:{port}"
    assert second == "Ready after 0.4 s. Try:"
    assert third.strip().startswith(f"curl -N http://127.0.0.1:{port}/v1/chat/completions")


def test_nothing_is_announced_that_never_listens(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    _, port = claim("127.0.0.1", 0)

    announce(load_settings(environ={}), "127.0.0.1", port, clock=clock, sleep=clock.sleep)

    assert clock.now >= PATIENCE_SECONDS
    assert capsys.readouterr().out == ""


def test_the_command_sends_a_credential_where_one_is_needed() -> None:
    command = curl("http://127.0.0.1:8000", "m", credential=True)
    assert '-H "authorization: Bearer $MILLSTREAM_CREDENTIAL" -d' in command
    assert "authorization" not in curl("http://127.0.0.1:8000", "m")


def test_the_command_survives_a_shell() -> None:
    words = shlex.split(curl("http://127.0.0.1:8000", 'it\'s a "model"'))

    body = json.loads(words[words.index("-d") + 1])
    assert body["model"] == 'it\'s a "model"'
    assert body["stream"] is True
    assert "content-type: application/json" in words
