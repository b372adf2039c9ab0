from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from millstream.cli import main, server
from millstream.cli.serve import worker_environment
from millstream.cli.server import granian_options
from millstream.config import Settings, load, load_settings


class Run:
    """Stands where the server would run, and looks at what it was given."""

    settings: Settings | None = None
    address = ""
    port = 0
    environ: Mapping[str, str] = {}

    def __call__(self, settings: Settings, address: str, port: int) -> None:
        self.settings, self.address, self.port = settings, address, port
        self.environ = dict(os.environ)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MILLSTREAM_CONFIG", raising=False)
    stand_in = Run()
    monkeypatch.setattr(server, "run", stand_in)
    return stand_in


def serve(*arguments: str) -> Result:
    # The runner puts the environment back, with what the command has set for its workers.
    return CliRunner(env=dict.fromkeys(VARIABLES)).invoke(main, ["serve", *arguments])


VARIABLES = [
    "MILLSTREAM_CONFIG",
    "MILLSTREAM__SERVER__HOST",
    "MILLSTREAM__SERVER__PORT",
    "MILLSTREAM__SERVER__WORKERS",
]


def test_workers_come_to_the_settings_that_the_command_line_asked_for(
    run: Run, tmp_path: Path
) -> None:
    Path("mine.toml").write_text("[server]\nport = 1\ndrain_seconds = 7")

    result = serve("--config", "mine.toml", "--port", "0", "--workers", "2")

    assert result.exit_code == 0, result.output
    assert run.settings is not None
    in_worker = load_settings(environ=run.environ)
    assert in_worker.server.workers == 2
    assert in_worker.server.drain_seconds == 7
    assert in_worker.server.port == run.port > 0
    assert run.environ["MILLSTREAM_CONFIG"] == str(tmp_path / "mine.toml")


def test_a_loopback_address_needs_no_warning(run: Run) -> None:
    assert "Warning" not in serve("--port", "0").stderr


def test_an_open_address_without_authentication_is_refused(run: Run) -> None:
    result = serve("--port", "0", "--host", "0.0.0.0")

    assert result.exit_code == 1
    assert (
        'Error: --host: server.host: 0.0.0.0 is not a loopback address and auth.mode is "off"'
        in result.stderr
    )
    assert 'use auth.mode = "required", or auth.allow_public = true' in result.stderr
    assert run.settings is None


def test_an_open_address_that_is_meant_is_warned_about(run: Run) -> None:
    Path("mine.toml").write_text("[auth]\nallow_public = true\n")

    result = serve("--config", "mine.toml", "--port", "0", "--host", "0.0.0.0")

    assert result.exit_code == 0, result.output
    assert "0.0.0.0 is not a loopback address and there is no authentication" in result.stderr


def test_an_open_address_with_authentication_needs_no_warning(run: Run) -> None:
    Path("keys.jsonl").touch()
    Path("mine.toml").write_text('[auth]\nmode = "required"\nkeys_file = "keys.jsonl"\n')

    result = serve("--config", "mine.toml", "--port", "0", "--host", "0.0.0.0")

    assert result.exit_code == 0, result.output
    assert "Warning" not in result.stderr


def test_a_secret_that_is_not_set_is_named_before_anything_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOKEN_SECRET", raising=False)
    jwt = 'jwt = { algorithms = ["HS256"], secret_env = "TOKEN_SECRET" }'
    Path("mine.toml").write_text(f'[auth]\nmode = "required"\n{jwt}\n')

    result = serve("--config", "mine.toml", "--port", "0")

    assert result.exit_code == 1
    assert "auth.jwt.secret_env: the variable TOKEN_SECRET is not set" in result.stderr
    assert run.settings is None


def test_a_file_of_keys_that_is_not_there_is_named_before_anything_starts(run: Run) -> None:
    Path("mine.toml").write_text('[auth]\nmode = "required"\nkeys_file = "keys.jsonl"\n')

    result = serve("--config", "mine.toml", "--port", "0")

    assert result.exit_code == 1
    assert "auth.keys_file: keys.jsonl: cannot be read: No such file" in result.stderr
    assert "`millstream keys create` makes it" in result.stderr
    assert run.settings is None


def test_a_limit_that_valkey_could_not_count_is_named_before_anything_starts(run: Run) -> None:
    limits = "limits = { requests = { per_minute = 7, burst = 1000000000 } }"
    Path("mine.toml").write_text(f'[limiter]\nkind = "valkey"\n[tenants.acme]\n{limits}')

    result = serve("--config", "mine.toml", "--port", "0")

    assert result.exit_code == 1
    assert "tenant:acme: limits.requests: a burst of 1000000000" in result.stderr
    assert run.settings is None


def test_a_port_on_which_somebody_listens_is_refused(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        result = serve("--port", str(taken.getsockname()[1]))

    assert result.exit_code == 1
    assert "server.port: cannot listen on 127.0.0.1" in result.stderr
    assert run.settings is None


def test_a_mistake_on_the_command_line_is_named_by_its_option(run: Run) -> None:
    result = serve("--port", "70000")

    assert result.exit_code == 1
    assert "--port: server.port: must be less than or equal to 65535" in result.stderr


def test_a_model_that_is_not_there_is_named_before_anything_starts(run: Run) -> None:
    # It was a traceback of each worker, and then of its successors, until Granian gave up.
    Path("mine.toml").write_text('[engines.local]\nmodel = "/none.gguf"\n')

    result = serve("--config", "mine.toml", "--port", "0")

    assert result.exit_code == 1
    assert "engines.local.model: model '/none.gguf' is neither" in result.stderr
    assert run.settings is None


def test_without_torch_it_says_how_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # The server listened, was never ready, and started one process after the other.
    # By its name, `millstream.cli.serve` is the command.
    monkeypatch.setattr(sys.modules["millstream.cli.serve"], "find_spec", lambda _: None)

    result = serve("--port", "0")

    assert result.exit_code == 1
    assert 'pip install "millstream[torch]"' in result.stderr
    assert run.settings is None


def test_without_a_file_workers_are_given_none() -> None:
    assert worker_environment(load(environ={}), {"port": 1}) == {"MILLSTREAM__SERVER__PORT": "1"}


def test_a_worker_is_killed_only_after_the_drain_deadline() -> None:
    settings = load_settings(environ={"MILLSTREAM__SERVER__DRAIN_SECONDS": "1.5"})

    options = granian_options(settings, "127.0.0.1", 8000)

    assert options["workers_kill_timeout"] == 7
