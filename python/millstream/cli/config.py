"""`millstream config`: what is configured, by whom, and whether it is right."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from time import time_ns

import click

from millstream.assembly.limits import check_limits
from millstream.assembly.reload import open_documents
from millstream.cli.options import config_option
from millstream.config import Document, Loaded, Settings, load, to_toml
from millstream.errors import ConfigError


@click.group()
def config() -> None:
    """Check and show the configuration."""


@config.command()
@config_option
def check(config_file: Path | None) -> None:
    """Name everything that is wrong.

    The exit status is 1 if anything is.
    """
    loaded = _checked(config_file)
    click.echo(f"{loaded.path or 'defaults and environment'}: good")


@config.command()
@config_option
def show(config_file: Path | None) -> None:
    """Print what is in force, and who set it.

    As TOML, with the defaults; secrets are hidden.
    """
    click.echo(to_toml(load(config_file)), nl=False)


@config.command()
def schema() -> None:
    """Print the JSON Schema."""
    click.echo(json.dumps(Settings.model_json_schema(), indent=2))


@config.command()
@config_option
def push(config_file: Path | None) -> None:
    """Hand the file to all servers of `reload.url`.

    It is checked first. Each server checks it again, and takes over what needs no restart.
    """
    loaded = _checked(config_file)
    if loaded.path is None or loaded.document is None:
        raise ConfigError("there is no file to push: name it with --config")
    reached = asyncio.run(_push(loaded.settings, loaded.document))
    click.echo(f"{loaded.path}: handed to {reached} worker{'' if reached == 1 else 's'}")


async def _push(settings: Settings, document: Document) -> int:
    newest = Document(time_ns(), document.text, document.origin)
    return await open_documents(settings.reload).push(newest)


def _checked(config_file: Path | None) -> Loaded:
    """The configuration, of which also the limits can be counted; raises `ConfigError`."""
    loaded = load(config_file)
    check_limits(loaded.settings)
    return loaded
