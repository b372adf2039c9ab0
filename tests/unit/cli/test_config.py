from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.cli import main


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MILLSTREAM_CONFIG", raising=False)
    return CliRunner()


def test_check_names_the_file_that_is_good(runner: CliRunner) -> None:
    Path("mine.toml").write_text("[server]\nport = 9000")

    result = runner.invoke(main, ["config", "check", "--config", "mine.toml"])

    assert (result.exit_code, result.stdout) == (0, "mine.toml: good\n")


def test_check_fails_with_every_problem_on_standard_error(runner: CliRunner) -> None:
    Path("mine.toml").write_text("[server]\nport = -1\nprot = 1")

    result = runner.invoke(main, ["config", "check", "--config", "mine.toml"])

    assert result.exit_code == 1
    assert result.stdout == ""
    assert "server.port: must be greater than or equal to 0, not -1" in result.stderr
    assert "server.prot: unknown key; did you mean `port`?" in result.stderr
    assert "Traceback" not in result.stderr


def test_check_names_a_limit_that_valkey_could_not_count(runner: CliRunner) -> None:
    limits = "limits = { requests = { per_minute = 7, burst = 1000000000 } }"
    Path("mine.toml").write_text(f'[limiter]\nkind = "valkey"\n[tenants.acme]\n{limits}')

    result = runner.invoke(main, ["config", "check", "--config", "mine.toml"])

    assert result.exit_code == 1
    assert "tenant:acme: limits.requests: a burst of 1000000000" in result.stderr


def test_show_prints_the_effective_configuration_as_toml(runner: CliRunner) -> None:
    environ = {"MILLSTREAM__SERVER__PORT": "9000"}

    result = runner.invoke(main, ["config", "show"], env=environ)

    assert result.exit_code == 0
    assert tomllib.loads(result.stdout)["server"]["port"] == 9000
    assert "port = 9000  # MILLSTREAM__SERVER__PORT" in result.stdout


def test_schema_describes_every_field(runner: CliRunner) -> None:
    result = runner.invoke(main, ["config", "schema"])

    schema = json.loads(result.stdout)
    sections = [schema, *schema["$defs"].values()]
    undescribed = [
        f"{section['title']}.{name}"
        for section in sections
        for name, field in section["properties"].items()
        if not field.get("description", "").strip()
    ]
    assert undescribed == []


def test_the_version_is_that_of_the_package(runner: CliRunner) -> None:
    from millstream import __version__

    assert runner.invoke(main, ["--version"]).stdout == f"millstream, version {__version__}\n"
