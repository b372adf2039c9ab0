"""A process for tests to kill: ``python -m tests.integration.valkey_worker URL STREAM...``.

Produces the streams named, a token each time it reads a line, and says so.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from time import monotonic_ns

from millstream.config.store import StoreSettings
from millstream.store import open_store
from millstream.telemetry import logging as events
from tests.unit.store.recordings import Producer, recording, write


async def work(url: str, names: list[str]) -> None:
    settings = StoreSettings(kind="valkey", url=url, lease_seconds=1.0, flush_ms=10)
    store = open_store(settings)
    await store.start()
    streams = [recording(name) for name in names]
    for stream in streams:
        store.publish(stream, Producer())
    loop = asyncio.get_running_loop()
    count = 0
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        for stream in streams:
            write(stream, f"{line.strip()} ")
        count += 1
        store.sweep(monotonic_ns())
        print(count, flush=True)
    await store.close()


if __name__ == "__main__":
    events.setup("info", "text")
    logging.getLogger("asyncio").setLevel("ERROR")
    asyncio.run(work(sys.argv[1], sys.argv[2:]))
