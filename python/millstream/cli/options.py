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

credential_option = click.option(
    "--credential",
    metavar="TEXT",
    envvar="MILLSTREAM_CREDENTIAL",
    help="API key or access token for the server; better in $MILLSTREAM_CREDENTIAL than here.",
)
