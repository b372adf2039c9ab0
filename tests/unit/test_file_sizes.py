"""One concept a file: what grows beyond the limit holds more than one."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = 500


@pytest.mark.parametrize("directory", ["python", "tests", "benches", "examples", "rust"])
def test_no_file_is_longer_than_the_limit(directory: str) -> None:
    files = [*(ROOT / directory).rglob("*.py"), *(ROOT / directory).rglob("*.rs")]

    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in files}

    assert files
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
