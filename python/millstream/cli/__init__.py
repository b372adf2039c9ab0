"""The command line: one sub-command a file."""

from __future__ import annotations

import click

from millstream import __version__
from millstream.cli.config import config
from millstream.cli.doctor import doctor
from millstream.cli.engine import engine
from millstream.cli.keys import keys
from millstream.cli.serve import serve
from millstream.errors import MillstreamError


class _Commands(click.Group):
    """Turns failures raised on purpose into a message and exit status 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except MillstreamError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="millstream")
def main() -> None:
    """Serve language-model token streams."""


for command in (config, doctor, engine, keys, serve):
    main.add_command(command)
