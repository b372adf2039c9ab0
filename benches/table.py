"""The tables that benchmarks print and keep."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    """Processor, cores and Python of this run."""
    model = "unknown processor"
    with open("/proc/cpuinfo") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{model}, {os.cpu_count()} cores, CPython {platform.python_version()}"


class Table:
    """A Markdown table with its command, versions and machine."""

    def __init__(self, subject: str, title: str, columns: Sequence[str]) -> None:
        self._subject = subject
        self._title = title
        self._rows = [tuple(columns), ("---",) * len(columns)]
        self._notes: list[str] = []

    def row(self, *cells: str) -> None:
        """Add a row."""
        self._rows.append(cells)

    def note(self, text: str) -> None:
        """Add a line below the table: a peer's settings, a caveat."""
        self._notes.append(text)

    def render(self, packages: Sequence[str] = ()) -> str:
        """The whole text; ``packages`` are named with their versions."""
        versions = ", ".join(f"{name} {version(name)}" for name in packages)
        lines = [
            f"# {self._title}",
            "",
            *(f"| {' | '.join(row)} |" for row in self._rows),
            "",
            f"- Command: `python -m benches.bench_{self._subject}`",
            *([f"- Versions: {versions}"] if versions else []),
            f"- Machine: {machine()}",
            *(f"- {note}" for note in self._notes),
        ]
        return "\n".join(lines) + "\n"

    def write(self, packages: Sequence[str] = (), *, below: Sequence[Table] = ()) -> None:
        """Print the text, and that of the tables ``below``, and keep it in ``results/``."""
        text = "\n".join(table.render(packages) for table in (self, *below))
        sys.stdout.write(text)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{self._subject}.md").write_text(text)
