"""Every command says what it does, and the README names none that does not exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from millstream.cli import main

README = Path(__file__).parents[3] / "README.md"


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from commands(below, *path, name)


EACH = [pytest.param(path, command, id=" ".join(path)) for path, command in commands(main)]


@pytest.mark.parametrize(("path", "command"), EACH)
def test_help_says_what_the_command_and_each_of_its_options_is_for(
    path: tuple[str, ...], command: click.Command
) -> None:
    result = CliRunner().invoke(main, [*path, "--help"])

    assert result.exit_code == 0
    assert command.help
    assert "..." not in result.stdout.replace("[ARGS]...", "")  # a sentence cut short
    assert all(one.help for one in command.params if isinstance(one, click.Option))


def test_a_command_that_does_not_exist_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["sevre"])

    assert result.exit_code == 2
    assert "sevre" in result.stderr


def test_the_commands_in_the_readme_exist() -> None:
    known = {path for path, _ in commands(main)}
    blocks = re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL)
    lines = [shlex.split(line, comments=True) for line in "".join(blocks).splitlines()]
    written = {
        tuple(takewhile(lambda word: not word.startswith("-"), words[1:]))
        for words in lines
        if words[0] == "millstream"
    }

    assert len(written) > 3
    assert written <= known
