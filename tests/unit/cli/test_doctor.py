from __future__ import annotations

import importlib.metadata
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from millstream.cli import main
from millstream.cli.address import claim
from millstream.cli.doctor import address_free, model_files
from millstream.config import load_settings
from millstream.telemetry import diagnostics
from millstream.telemetry.diagnostics import State
from tests.unit.cli.local_server import local_server


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.chdir(tmp_path)
    return CliRunner(env={"MILLSTREAM__SERVER__PORT": str(claim("127.0.0.1", 0)[1])})


def examined(runner: CliRunner, *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    result = runner.invoke(main, ["doctor", "--json", *arguments])
    report = json.loads(result.stdout)
    assert report["good"] == (result.exit_code == 0)
    return result.exit_code, {check["name"]: check for check in report["checks"]}


def test_a_machine_that_can_serve_has_no_problem(runner: CliRunner) -> None:
    status, checks = examined(runner)

    assert status == 0
    assert checks["torch"]["detail"] == importlib.metadata.version("torch")
    assert "cpu" in checks["torch devices"]["detail"]
    assert checks["model of engine local"]["detail"].endswith(".gguf (gguf)")
    assert {"rust core", "memory", "shared memory", "memfd, eventfd"} <= set(checks)


def test_a_wrong_configuration_is_a_problem(runner: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[server]\nprot = 1")

    status, checks = examined(runner, "--config", str(path))

    assert status == 1
    assert "did you mean `port`?" in checks["configuration"]["detail"]


def test_the_report_for_people_has_a_line_for_each_check(runner: CliRunner) -> None:
    _, checks = examined(runner)

    result = runner.invoke(main, ["doctor"])

    assert len(result.stdout.splitlines()) == len(checks)
    assert "good     python: 3." in result.stdout


def test_a_model_that_is_not_there_is_a_problem() -> None:
    settings = load_settings(environ={"MILLSTREAM__ENGINES__LOCAL__MODEL": "/nowhere.gguf"})

    (check,) = model_files(settings)

    assert check.state is State.PROBLEM
    assert "/nowhere.gguf" in check.detail


@pytest.mark.parametrize(
    ("status", "text", "state"),
    [
        (200, '{"status":"ready","draining":false,"engines":{}}', State.WARNING),
        (503, '{"status":"not_ready","draining":true,"engines":{}}', State.WARNING),
        (200, "ok", State.PROBLEM),
        (404, "", State.PROBLEM),
    ],
)
def test_a_taken_port_is_a_problem_unless_millstream_has_it(
    status: int, text: str, state: State
) -> None:
    with local_server(lambda _: (status, text)) as port:
        check = address_free(load_settings(environ={"MILLSTREAM__SERVER__PORT": str(port)}))

    assert check.state is state


def test_a_port_that_takes_connections_and_says_nothing_is_a_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        check = address_free(load_settings(environ={"MILLSTREAM__SERVER__PORT": str(port)}))

    assert check.state is State.PROBLEM


def test_what_is_not_installed_comes_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[[str], str] = importlib.metadata.version

    def version(name: str) -> str:
        if name == "torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)

    torch = next(check for check in diagnostics.versions() if check.name == "torch")

    assert torch.state is State.PROBLEM
    assert (torch.detail, torch.remedy) == ("not installed", 'pip install "millstream[torch]"')


@pytest.mark.parametrize(
    ("available_kib", "state"), [(4_000_000, State.GOOD), (400_000, State.WARNING)]
)
def test_little_memory_is_a_warning(tmp_path: Path, available_kib: int, state: State) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 9000000 kB\nMemAvailable: {available_kib} kB\n")

    check = diagnostics.memory(meminfo)

    assert check.state is state
    assert check.detail == f"{available_kib // 1024} MiB available"


def test_unknown_memory_and_missing_shared_memory_are_warnings(tmp_path: Path) -> None:
    assert diagnostics.memory(tmp_path / "none").state is State.WARNING
    assert diagnostics.shared_memory(tmp_path / "none").state is State.WARNING
