"""Limits in the path of a real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.e2e.http1 import Connection
from tests.e2e.servers import Server
from tests.e2e.test_http1 import CHAT, chat
from tests.waiting import until


def post(server: Server, **fields: object) -> httpx.Response:
    return httpx.post(f"{server.url}{CHAT}", json=chat(stream=False, **fields), timeout=60)


def test_a_spent_limit_is_a_429_with_waits_and_remains(idle: Server) -> None:
    model = "hundred-tokens-a-minute"
    granted = post(idle, model=model, max_tokens=30, ignore_eos=True)
    assert granted.status_code == 200
    assert granted.json()["usage"]["total_tokens"] > 50
    refused = post(idle, model=model, max_tokens=30, ignore_eos=True)
    assert refused.status_code == 429
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert int(refused.headers["retry-after"]) >= 1
    assert int(refused.headers["retry-after-ms"]) >= 1
    assert int(refused.headers["x-ratelimit-limit-tokens"]) == 100
    assert int(refused.headers["x-ratelimit-remaining-tokens"]) >= 0


def test_a_cost_that_can_never_fit_is_a_400_without_a_wait(idle: Server) -> None:
    answer = post(idle, model="two-a-minute", max_tokens=1000)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "cost_exceeds_limit"
    assert "400" in answer.json()["error"]["message"]
    assert "retry-after" not in answer.headers
    assert answer.headers["x-should-retry"] == "false"


def test_a_slot_is_free_again_after_every_kind_of_ending(idle: Server) -> None:
    # litellm#27955, #20256: slots leaked on cancel and on success.
    model = "one-at-a-time"
    with Connection(idle.port) as holder:
        holder.post(CHAT, chat(model=model, max_tokens=1500, ignore_eos=True))
        holder.read_until(b"data: ")
        assert post(idle, model=model, max_tokens=1).status_code == 429
    until(lambda: idle.metric("millstream_active_streams") == 0)
    assert post(idle, model=model, max_tokens=1).status_code == 200
    assert post(idle, model=model, max_tokens=1).status_code == 200


def test_concurrent_requests_never_exceed_the_slot(idle: Server) -> None:
    # litellm#18730: parallel requests went through a limit that one had filled.
    with ThreadPoolExecutor(8) as pool:
        statuses = list(
            pool.map(
                lambda _: post(idle, model="one-at-a-time", max_tokens=30).status_code, range(8)
            )
        )
    assert set(statuses) <= {200, 429}
    assert 200 in statuses
    assert idle.metric("millstream_limiter_refusals_total", scope="model") > 0
