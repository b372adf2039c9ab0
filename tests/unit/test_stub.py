from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_stub_says_what_the_extension_has() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "millstream._core"]
    command += ["--allowlist", "stubtest-allow.txt"]
    environment = {**os.environ, "MYPYPATH": "python"}

    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert result.returncode == 0, result.stdout + result.stderr
