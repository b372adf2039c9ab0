"""The limit belongs to a process, so one of its own is asked."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import resource
from millstream.cli.descriptors import raise_descriptor_limit

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, most), most))
raise_descriptor_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
"""


def test_a_server_may_open_as_many_connections_as_the_system_allows() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
