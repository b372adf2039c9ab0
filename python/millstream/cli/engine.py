"""`millstream engine`: what the engines of a running server do."""

from __future__ import annotations

import json
from pathlib import Path

import click
from prometheus_client.parser import text_string_to_metric_families

from millstream.cli.address import url
from millstream.cli.options import config_option, credential_option
from millstream.cli.probe import get
from millstream.config import load
from millstream.telemetry import names

COLUMNS = {
    "running": names.ENGINE_BATCH_SIZE,
    "waiting": names.QUEUE_DEPTH,
    "pages_used": names.KV_BLOCKS_USED,
    "pages": names.KV_BLOCKS,
}


@click.group()
def engine() -> None:
    """Look at the engines."""


@engine.command()
@config_option
@click.option("--url", "base", help="The server's URL.  [default: from the configuration]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@credential_option
def status(
    config_file: Path | None, base: str | None, as_json: bool, credential: str | None
) -> None:
    """Show what each engine of the running server works on."""
    if base is None:
        server = load(config_file).settings.server
        base = url(server.host, server.port)
    answer = get(f"{base}/metrics", credential=credential)
    if answer is not None and answer[0] in (401, 403):
        raise click.ClickException(
            f"{base} answers {answer[0]}: needs a credential with metrics:read, in --credential "
            "or MILLSTREAM_CREDENTIAL"
        )
    if answer is None or answer[0] != 200:
        raise click.ClickException(f"no Millstream answers on {base}")
    engines = read_engines(answer[1])
    if as_json:
        click.echo(json.dumps(engines, indent=2))
        return
    click.echo("".join(f"{title:>12}" for title in ("engine", *COLUMNS)))
    for name, row in engines.items():
        click.echo(f"{name:>12}" + "".join(f"{row.get(column, 0):>12}" for column in COLUMNS))


def read_engines(exposition: str) -> dict[str, dict[str, int]]:
    """The engines' figures in a Prometheus exposition, by engine name."""
    columns = {metric: column for column, metric in COLUMNS.items()}
    engines: dict[str, dict[str, int]] = {}
    for family in text_string_to_metric_families(exposition):
        if column := columns.get(family.name):
            for sample in family.samples:
                engines.setdefault(sample.labels["engine"], {})[column] = int(sample.value)
    return engines
