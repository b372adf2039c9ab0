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
    """Say whether the configuration is right; if not, everything that is wrong."""
    loaded = load(config_file)
    click.echo(f"{loaded.path or 'defaults and environment'}: good")


@config.command()
@config_option
def show(config_file: Path | None) -> None:
    """Print the effective configuration as TOML, with who set what; secrets are hidden."""
    click.echo(to_toml(load(config_file)), nl=False)


@config.command()
def schema() -> None:
    """Print the JSON Schema of the configuration."""
    click.echo(json.dumps(Settings.model_json_schema(), indent=2))
