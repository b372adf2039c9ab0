"""What the README shows is what happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.http1 import events
from tests.e2e.servers import Server

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.M | re.S)


def here(text: str, server: Server) -> str:
    assert "127.0.0.1:8000" in text
    return text.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")


def run(commands: str, server: Server) -> bytes:
    return subprocess.run(
        ["bash", "-euc", here(commands, server)], check=True, capture_output=True, timeout=60
    ).stdout


def test_every_block_of_commands_is_run_here() -> None:
    assert len(blocks("bash")) == 3


def test_the_curl_example_streams_a_true_answer(idle: Server) -> None:
    output = run(blocks("bash")[0], idle)
    chunks = events(output)
    assert chunks[-1] == "[DONE]"
    assert b"Paris" in output


def test_the_commands_that_resume_read_on_after_their_cursors(idle: Server) -> None:
    output = run(blocks("bash")[1], idle).decode()
    whole, after_three, as_openai = re.split(r"^retry: [0-9]+$", output, flags=re.M)[1:]
    texts = re.findall(r'"text":("[^"]*")', whole)
    assert "Paris" in "".join(json.loads(text) for text in texts)
    assert re.findall(r'"text":("[^"]*")', after_three) == texts[3:]
    assert as_openai.count('"object":"chat.completion.chunk"') >= len(texts) - 3
    _, cancelled = as_openai.split("data: [DONE]\n\n")
    assert json.loads(cancelled)["outcome"] in ("completed", "length")


def test_the_commands_of_durable_streams_read_what_was_written(idle: Server) -> None:
    assert run(blocks("bash")[2], idle).decode() == "first last"


def printed(program: str, server: Server) -> str:
    """What a Python program of the README writes."""
    command = [sys.executable, "-c", here(program, server)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return ran.stdout


def test_the_python_example_prints_a_true_answer(idle: Server) -> None:
    (program,) = blocks("python")
    assert "Paris" in printed(program, idle)


def test_the_example_of_the_client_prints_a_verified_answer(idle: Server) -> None:
    (program,) = blocks("py")
    output = printed(program, idle)
    assert "Paris" in output
    assert "completed" in output
    assert "Checks(records=" in output


@pytest.mark.parametrize("target", ["serve", "test"])
def test_the_first_commands_are_targets_of_the_makefile(target: str) -> None:
    assert f"make {target} " in README.read_text()[:1200]
    makefile = (README.parent / "Makefile").read_text()
    assert re.search(rf"^{target}:", makefile, re.M)
