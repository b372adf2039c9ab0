"""`millstream doctor`: can this machine serve this configuration?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import click

from millstream.cli.address import claim, url
from millstream.cli.options import config_option
from millstream.cli.probe import get
from millstream.config import Settings, load
from millstream.errors import ConfigError
from millstream.telemetry import diagnostics
from millstream.telemetry.diagnostics import Check, State

_COLOURS = {State.GOOD: "green", State.WARNING: "yellow", State.PROBLEM: "red"}


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(config_file: Path | None, as_json: bool) -> None:
    """Say whether this machine can serve.

    Lists what is installed, what the machine has, and what stands in the way of serving; the exit
    status is 1 if anything does.
    """
    checks = list(examine(config_file))
    good = all(check.state is not State.PROBLEM for check in checks)
    if as_json:
        rows = [dataclasses.asdict(check) for check in checks]
        click.echo(json.dumps({"good": good, "checks": rows}, indent=2))
    else:
        for check in checks:
            click.echo(_line(check))
    if not good:
        raise SystemExit(1)


def examine(config_file: Path | None) -> Iterator[Check]:
    """Everything there is to look at, in the order in which a start would meet it."""
    yield from diagnostics.versions()
    yield diagnostics.core()
    yield diagnostics.torch_devices()
    yield diagnostics.processors()
    yield diagnostics.memory()
    yield diagnostics.shared_memory()
    yield diagnostics.descriptors()
    try:
        loaded = load(config_file)
    except ConfigError as error:
        yield Check("configuration", State.PROBLEM, str(error))
        return
    detail = str(loaded.path or "defaults and environment")
    yield Check("configuration", State.GOOD, detail)
    yield from model_files(loaded.settings)
    yield address_free(loaded.settings)


def model_files(settings: Settings) -> Iterator[Check]:
    """Whether each engine's model is on this machine."""
    # Here, so that a broken engine package is a finding of its own and not the end of the doctor.
    from millstream.engines.torch.models import resolve_model

    for name, engine in settings.engines.items():
        label = f"model of engine {name}"
        try:
            file = resolve_model(engine.model)
        except ConfigError as error:
            yield Check(label, State.PROBLEM, str(error))
        else:
            yield Check(label, State.GOOD, f"{file.path} ({file.format})")


def address_free(settings: Settings) -> Check:
    """Whether the server's address can be had."""
    server = settings.server
    name = f"{server.host} port {server.port}"
    try:
        claim(server.host, server.port)
    except ConfigError as error:
        if _millstream_answers(server.host, server.port):
            return Check(name, State.WARNING, "taken by a Millstream that runs")
        return Check(name, State.PROBLEM, str(error), "choose another: --port, server.port")
    return Check(name, State.GOOD, "free")


def _millstream_answers(host: str, port: int) -> bool:
    # Of two answers that need no credential, the one whose words are nobody else's.
    answer = get(f"{url(host, port)}/readyz", timeout_seconds=1)
    return answer is not None and '"draining"' in answer[1]


def _line(check: Check) -> str:
    state = click.style(f"{check.state:8}", fg=_COLOURS[check.state])
    remedy = f"  -> {check.remedy}" if check.remedy else ""
    return f"{state} {check.name}: {check.detail}{remedy}"
