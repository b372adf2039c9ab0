"""What one call takes from malloc, Python's objects and foreign code alike.

The call runs in a process of its own in which Python has no allocator of its own
(`PYTHONMALLOC=malloc`) and every allocation goes through `heap.c`, which counts.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_suffix(".c")
WARM_UP_CALLS = 20


class Heap(NamedTuple):
    """Bytes allocated in all, most at once, still held by the result; and how many allocations.

    A block counts with the size that malloc gave it, not the one that was asked for.
    """

    allocated: int
    peak: int
    kept: int
    allocations: int


def heap_of(arguments: Sequence[str]) -> Heap:
    """Runs this Python with ``arguments``, which must make it `count` the call in question."""
    with tempfile.TemporaryDirectory() as directory:
        library = Path(directory, "heap.so")
        command: list[str | Path] = [
            "cc",
            "-O1",
            "-fno-builtin",
            "-shared",
            "-fPIC",
            "-o",
            library,
            SOURCE,
        ]
        subprocess.run(command, check=True)
        environment = {**os.environ, "PYTHONMALLOC": "malloc", "LD_PRELOAD": str(library)}
        counted = subprocess.run(
            [sys.executable, *arguments], check=True, capture_output=True, env=environment
        )
        return Heap(*json.loads(counted.stdout))


def count(call: Callable[[], object]) -> None:
    """Prints the figures of one warm call, whose result is held until they are read."""
    library = ctypes.CDLL(None)
    figures = (ctypes.c_long * 4)()
    # First, since it empties the lists from which Python takes dictionaries and lists again.
    gc.collect()
    gc.disable()
    for _ in range(WARM_UP_CALLS):
        call()
    start, stop = library.heap_start, library.heap_stop
    start()
    result = call()
    stop(figures)
    print(json.dumps(list(figures)))
    del result
