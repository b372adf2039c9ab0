"""Tells whoever started the server when it listens and when it can answer."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable

import click

from millstream.cli.address import url
from millstream.cli.probe import get
from millstream.config import Settings

PATIENCE_SECONDS = 600.0
QUESTION = "What is the capital of France?"


def announce(
    settings: Settings,
    address: str,
    port: int,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Prints the URL once the server listens, and a command to try once a model is ready."""
    base = url(address, port)
    start = clock()
    listening = False
    while clock() - start < PATIENCE_SECONDS:
        answer = get(f"{base}/readyz")
        if answer is not None and not listening:
            listening = True
            click.echo(f"Millstream listens on {base}")
        if answer is not None and answer[0] == 200:
            model = next(iter(settings.models))
            command = curl(base, model, credential=settings.auth.mode == "required")
            click.echo(f"Ready after {clock() - start:.1f} s. Try:\n  {command}")
            return
        sleep(0.2)


def curl(base: str, model: str, *, credential: bool = False) -> str:
    """A command that streams an answer of ``model``, with the credential of the environment."""
    messages = [{"role": "user", "content": QUESTION}]
    body = json.dumps({"model": model, "stream": True, "messages": messages})
    proof = '-H "authorization: Bearer $MILLSTREAM_CREDENTIAL" ' if credential else ""
    return (
        f"curl -N {base}/v1/chat/completions -H 'content-type: application/json' {proof}"
        f"-d {shlex.quote(body)}"
    )
