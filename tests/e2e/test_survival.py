"""Killed processes under 500 streams: nothing forged, nothing doubled, nothing lost in silence."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.e2e.servers import Server, millstream_command, serving
from tests.e2e.survivors import Crowd, completion
from tests.e2e.test_faults import engine_pids, is_worker
from tests.integration.valkey_server import ValkeyServer
from tests.ports import free_port
from tests.waiting import until

STREAMS, MAX_TOKENS, PROMPTS = 500, 12, 5

CONFIG = """
[engines.local]
kind = "torch"
model = "smollm2-135m-instruct"
threads = 2
max_batch = 64
kv_tokens = 65536

[models.chat]
routes = [{{ engine = "local" }}]
timeouts = {{ first_token_seconds = 280, idle_seconds = 120, total_seconds = 290 }}

[server]
workers = 2

[store]
kind = "valkey"
url = "{url}"
lease_seconds = 3
"""


@dataclass
class Site:
    """A server of two workers on its own Valkey."""

    server: Server
    valkey: ValkeyServer
    folder: Path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    config = tmp_path / "millstream.toml"
    with closing(ValkeyServer()) as valkey:
        config.write_text(CONFIG.format(url=valkey.url))
        port = free_port()
        with serving(millstream_command(port, config), port=port, folder=tmp_path) as server:
            yield Site(server, valkey, tmp_path)


def kill_a_worker(site: Site) -> None:
    victims = [pid for pid in site.server.workers() if is_worker(pid)]
    os.kill(random.choice(victims), signal.SIGKILL)


def kill_the_engine(site: Site) -> None:
    (engine,) = engine_pids(site.folder)
    os.kill(engine, signal.SIGKILL)


def kill_valkey(site: Site) -> None:
    site.valkey.kill()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kill", "allowed"),
    [
        (kill_a_worker, {"length", "engine_lost", "refused 503"}),
        (kill_the_engine, {"length", "engine_lost", "refused 503"}),
        (kill_valkey, {"length"}),
    ],
    ids=["worker", "engine", "valkey"],
)
async def test_every_stream_has_a_typed_end_and_an_honest_text(
    site: Site, kill: Callable[[Site], None], allowed: set[str]
) -> None:
    prompts = [f"Count to {number}." for number in range(3, 3 + PROMPTS)]
    whole = {prompt: _whole(site.server, prompt) for prompt in prompts}
    left = random.randrange(STREAMS, STREAMS * MAX_TOKENS // 2)

    def on_token() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            kill(site)

    crowd = Crowd(site.server.url, MAX_TOKENS, on_token)
    await crowd.run([prompts[number % PROMPTS] for number in range(STREAMS)])

    print(dict(crowd.ends()), "reconnects:", sum(one.reconnects for one in crowd.survivors))
    assert left <= 0
    assert [one.faults for one in crowd.survivors if one.faults] == []
    assert set(crowd.ends()) <= allowed
    for one in crowd.survivors:
        expected = whole[one.prompt]
        assert one.text == expected if one.end == "length" else expected.startswith(one.text)
    lost = crowd.ends()["engine_lost"]
    until(lambda: _counted(site.server, "engine_lost") >= lost, what="every lost stream counted")
    assert _counted(site.server, "engine_lost") == lost
    until(lambda: site.server.metric("millstream_engine_batch_size") == 0)


def _counted(server: Server, outcome: str) -> float:
    return server.metric("millstream_requests_total", outcome=outcome)


def _whole(server: Server, prompt: str) -> str:
    body = completion(prompt, max_tokens=MAX_TOKENS)
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text
