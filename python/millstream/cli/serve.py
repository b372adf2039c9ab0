"""`millstream serve`: Granian around the app."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import click

from millstream.assembly.identity import require_credentials
from millstream.assembly.limits import check_limits
from millstream.cli.address import claim
from millstream.cli.descriptors import raise_descriptor_limit
from millstream.cli.options import config_option
from millstream.config import Loaded, Settings, load
from millstream.config.sources import FILE_VARIABLE, PREFIX
from millstream.config.toml import Keys
from millstream.engines.torch.models import resolve_model
from millstream.errors import ConfigError


@click.command()
@config_option
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on, 0 for a free one.  [default: 8000]")
@click.option("--workers", type=int, help="Worker processes.  [default: 1]")
def serve(
    config_file: Path | None, host: str | None, port: int | None, workers: int | None
) -> None:
    """Serve until stopped.

    Told to stop, the server lets streams run on for `server.drain_seconds`.
    """
    given = {"host": host, "port": port, "workers": workers}
    options = {name: value for name, value in given.items() if value is not None}
    overrides: dict[Keys, tuple[object, str]] = {
        ("server", name): (value, f"--{name}") for name, value in options.items()
    }
    loaded = load(config_file, overrides)
    server = loaded.settings.server
    if loaded.settings.auth.mode == "off" and not server.loopback:
        click.echo(
            f"Warning: {server.host} is not a loopback address and there is no authentication: "
            "whoever reaches this machine can use the models.",
            err=True,
        )
    # Here, since a worker that cannot start is started again and again.
    check_limits(loaded.settings)
    require_credentials(loaded.settings)
    require_engines(loaded.settings)
    raise_descriptor_limit()
    address, bound_port = claim(server.host, server.port)
    os.environ.update(worker_environment(loaded, {**options, "port": bound_port}))

    # Here, because the other sub-commands need no server.
    from millstream.cli.server import run

    run(loaded.settings, address, bound_port)


def require_engines(settings: Settings) -> None:
    """Raise `ConfigError` for what no start of an engine could get over."""
    if find_spec("torch") is None:
        raise ConfigError('torch is not installed: pip install "millstream[torch]"')
    for name, engine in settings.engines.items():
        try:
            resolve_model(engine.model)
        except ConfigError as error:
            raise ConfigError(f"engines.{name}.model: {error}") from error


def worker_environment(loaded: Loaded, options: dict[str, str | int]) -> dict[str, str]:
    """What makes the workers, which load the configuration again, come to the same settings."""
    environment = {f"{PREFIX}SERVER__{name.upper()}": str(options[name]) for name in options}
    if loaded.path is not None:
        environment[FILE_VARIABLE] = str(loaded.path.resolve())
    return environment
