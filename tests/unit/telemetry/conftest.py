"""Metrics of a worker and of another one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import values

from millstream.telemetry.metrics import Metrics
from millstream.telemetry.shared_files import VARIABLE

# What another worker of the same server would do, then it hangs on until its input closes.
OTHER_WORKER = """
import pathlib, sys
from millstream.telemetry.metrics import Metrics
metrics = Metrics(["chat"], pathlib.Path(sys.argv[1]))
metrics.request("/v1/chat/completions", "chat", "completed")
metrics.stream_opened("chat")
metrics.wait_began("chat")
metrics.config_revision(3)
metrics.config_reloaded("file", "refused")
metrics.engine("local", running=5, waiting=6, pages_used=7, pages_total=8)
print("counted", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _restored_client_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Metrics` sets globals of the client library, which end with the test."""
    monkeypatch.setenv(VARIABLE, os.environ.get(VARIABLE, ""))
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)


@pytest.fixture
def metrics(tmp_path: Path) -> Metrics:
    return Metrics(["chat"], tmp_path)


@pytest.fixture
def other_worker(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_WORKER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "counted\n"
        yield process
        process.kill()
