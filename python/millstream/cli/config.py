"""`millstream config`: what is configured, by whom, and whether it is right."""

from __future__ import annotations

import json
from pathlib import Path

import click

from millstream.cli.options import config_option
from millstream.config import Settings, load, to_toml


@click.group()
def config() -> None:
    """Check and show the configuration."""


@config.command()
@config_option
def check(config_file: Path | None) -> None:
    """Name everything that is wrong.

    The exit status is 1 if anything is.
    """
    loaded = load(config_file)
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
