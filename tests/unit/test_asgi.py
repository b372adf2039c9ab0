"""The app that servers load by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import gc
before = gc.get_freeze_count()
from millstream.asgi import app
gc.collect()
print(before, gc.get_freeze_count() > 10_000, len(gc.get_objects()) < 1_000)
"""


def test_a_full_collection_leaves_out_what_was_made_at_the_start(tmp_path: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("MILLSTREAM")
    }

    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stdout == "0 True True\n"
