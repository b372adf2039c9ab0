"""What the README shows is what happens."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.http1 import events
from tests.e2e.servers import Server, millstream_command, serving
from tests.ports import free_port

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.M | re.S)


def here(text: str, server: Server) -> str:
    assert "127.0.0.1:8000" in text
    return text.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}")


def run(commands: str, server: Server, **environment: str) -> bytes:
    return subprocess.run(
        ["bash", "-euc", here(commands, server)],
        check=True,
        capture_output=True,
        timeout=60,
        env={**os.environ, **environment},
    ).stdout


def test_every_block_of_commands_is_run_here() -> None:
    assert len(blocks("bash")) == 4


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


def test_a_key_made_by_the_command_is_let_in_and_told_what_is_left(tmp_path: Path) -> None:
    (guarded,) = [block for block in blocks("toml") if "keys_file" in block]
    config = tmp_path / "millstream.toml"
    config.write_text(guarded.replace("keys.jsonl", str(tmp_path / "keys.jsonl")))
    (commands,) = [block for block in blocks("console") if "keys create" in block]
    create, _serve = (shlex.split(line, comments=True)[1:] for line in commands.splitlines())
    create[create.index("millstream.toml")] = str(config)
    made = subprocess.run(
        [sys.executable, "-m", "millstream.cli", *create],
        check=True,
        capture_output=True,
        text=True,
    )
    port = free_port()
    with serving(millstream_command(port, config), port=port, folder=tmp_path) as server:
        admitted = run(blocks("bash")[3], server, MILLSTREAM_CREDENTIAL=made.stdout.strip())
        refused = run(blocks("bash")[3], server, MILLSTREAM_CREDENTIAL="ms_none")
    assert admitted.startswith(b"HTTP/1.1 200 ")
    assert b"Paris" in admitted
    assert b"\nx-tokens-charged: 45\r" in admitted
    assert b"\nx-ratelimit-remaining-tokens: 19955\r" in admitted
    assert refused.startswith(b"HTTP/1.1 401 ")
    assert b'\nwww-authenticate: Bearer realm="millstream", error="invalid_token"\r' in refused


def printed(program: str, server: Server) -> str:
    """What a Python program of the README writes."""
    command = [sys.executable, "-c", here(program, server)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return ran.stdout


def test_the_python_example_prints_a_true_answer(idle: Server) -> None:
    program, _library = blocks("python")
    assert "Paris" in printed(program, idle)


def test_the_example_of_a_library_is_the_one_that_the_tests_run() -> None:
    _client, library = blocks("python")
    example = (README.parent / "examples" / "limits.py").read_text()
    assert "LimitMiddleware" in library
    assert library in example


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
