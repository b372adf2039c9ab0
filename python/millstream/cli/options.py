"""Options that several sub-commands take."""

from __future__ import annotations

from pathlib import Path

import click

config_option = click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file; default: $MILLSTREAM_CONFIG, else ./millstream.toml if there is one.",
)
