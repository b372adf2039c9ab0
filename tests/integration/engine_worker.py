"""A worker process for tests to kill: ``python -m tests.integration.engine_worker``.

Takes the runtime directory, the options and a count; submits that many endless requests and says
so once each of them has got a record.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from millstream.engines.base import EngineEnd
from millstream.engines.torch.client import TorchEngine
from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.runtime import RuntimeDirectory
from millstream.types import SamplingParams
from tests.reference.hub import BookHub, RecordBook
from tests.reference.waiting import until


def ignore(end: EngineEnd) -> None:
    """Nobody is left to be told."""


async def work(directory: Path, options: str, count: int) -> None:
    engine = TorchEngine(
        "local",
        EngineOptions.from_json(options),
        hub=BookHub,
        directory=RuntimeDirectory(directory),
        idle_exit_seconds=120,
    )
    await engine.start()
    await engine.wait_ready()
    books = [RecordBook() for _ in range(count)]
    for request, book in enumerate(books):
        params = SamplingParams(max_tokens=900, ignore_eos=True)
        engine.submit(request, [100 + request, 200], params, book.as_log(), ignore)
    await until(lambda: all(books))
    print("working", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
