"""LiteLLM's limiter in a process of its own, with an interpreter that has ``litellm[proxy]``.

``LITELLM_PYTHON`` names that interpreter; LiteLLM pins too much to live among our own packages. The
lower half of this file runs there, as a script: it imports nothing of ours and answers lines of
``subject limit seconds`` with decisions per second of wall time, of CPU time, and the slowest
hundredth of single decisions in microseconds.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import version
from statistics import quantiles
from typing import Any

VARIABLE = "LITELLM_PYTHON"
BATCH = 50
HOUR_SECONDS = 3_600
SUBJECTS = {
    "LiteLLM v3, requests": "requests",
    "LiteLLM v3, requests + reserved tokens": "tokens",
}


class LiteLLM:
    """The process; made only where the variable is set."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            # Else it asks the network for prices first.
            env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
        self.version = self._line()

    def speed(self, name: str, limit: int, seconds: float) -> tuple[float, float, float]:
        """Decisions per second of wall and of CPU time, and the 99th percentile in µs."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{SUBJECTS[name]} {limit} {seconds}\n")
        self._process.stdin.flush()
        wall, cpu, slowest = self._line().split()
        return float(wall), float(cpu), float(slowest)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{VARIABLE}: that interpreter has no litellm[proxy] with redis")
        return line


def found() -> LiteLLM | None:
    """LiteLLM's limiter where there is an interpreter for it."""
    python = os.environ.get(VARIABLE)
    return LiteLLM(python) if python else None


Decide = Callable[[], Awaitable[object]]


def limiter() -> Any:
    """One that counts in memory."""
    caching = import_module("litellm.caching.caching")
    utils = import_module("litellm.proxy.utils")
    hooks = import_module("litellm.proxy.hooks.parallel_request_limiter_v3")
    cache = utils.InternalUsageCache(caching.DualCache())
    return hooks._PROXY_MaxParallelRequestsHandler_v3(internal_usage_cache=cache)


def decider(subject: str, limit: int) -> Decide:
    """What its proxy does before a call: count the request and, under ``tokens``, reserve 100."""
    found = limiter()
    limits = {"requests_per_unit": limit, "window_size": HOUR_SECONDS}
    if subject == "requests":
        requests = [{"key": "api_key", "value": "key", "rate_limit": limits}]
        return lambda: found.should_rate_limit(descriptors=requests)
    both = [{"key": "api_key", "value": "key", "rate_limit": limits | {"tokens_per_unit": 1 << 40}}]

    async def decide() -> None:
        answer = await found.should_rate_limit(descriptors=both, skip_tpm_check=True)
        if answer["overall_code"] == "OK":
            await found.reserve_tpm_tokens(both, 100)

    return decide


async def measured(decide: Decide, seconds: float) -> tuple[float, float, float]:
    """Speeds as `LiteLLM.speed` tells them; the first decision, which uses limits up, is free."""
    await decide()
    count, cpu, start = 0, time.process_time(), time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for _ in range(BATCH):
            await decide()
        count += BATCH
    spent_cpu = time.process_time() - cpu
    spent = []
    for _ in range(1_000):
        begin = time.perf_counter_ns()
        await decide()
        spent.append(time.perf_counter_ns() - begin)
    return count / elapsed, count / spent_cpu, quantiles(spent, n=100)[-1] / 1_000


def main() -> None:
    limiter()
    print(version("litellm"), flush=True)
    deciders: dict[tuple[str, int], Decide] = {}
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            subject, limit, seconds = line.split()
            key = subject, int(limit)
            if key not in deciders:
                deciders[key] = decider(*key)
            print(*runner.run(measured(deciders[key], float(seconds))), flush=True)


if __name__ == "__main__":
    main()
