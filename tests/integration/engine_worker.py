"""A worker process for tests to kill: ``python -m tests.integration.engine_worker``.

Takes the runtime directory, the options and a count; submits that many endless requests and says
so once each of them has got a record.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.runtime import RuntimeDirectory
from tests.integration.submitted import Submitted, ready, torch_engine
from tests.waiting import until_true


async def work(directory: Path, options: str, count: int) -> None:
    engine = torch_engine(RuntimeDirectory(directory), EngineOptions.from_json(options))
    await engine.start()
    await ready(engine)
    endless = [
        Submitted(engine, request, [100 + request, 200], max_tokens=900) for request in range(count)
    ]
    await until_true(lambda: all(one.records for one in endless))
    print("working", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
