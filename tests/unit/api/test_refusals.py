"""Refusals by a limit, on every route that generates."""

from __future__ import annotations

from typing import Any

import http_sf
import httpx
import pytest

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "the capital of France"}]}
PROMPT: dict[str, Any] = {"prompt": "the capital of France"}
ROUTES: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/chat/completions", CHAT, "max_tokens"),
    ("/v1/chat/completions", CHAT | {"stream": True}, "max_tokens"),
    ("/v1/completions", PROMPT, "max_tokens"),
    ("/v1/streams", PROMPT, "max_tokens"),
    ("/v1/streams", PROMPT | {"stream": False}, "max_tokens"),
    ("/v1/responses", {"input": "the capital of France"}, "max_output_tokens"),
    ("/v1/responses", {"input": "the capital of France", "stream": True}, "max_output_tokens"),
]


@pytest.mark.parametrize(("path", "body", "most"), ROUTES)
async def test_a_limit_that_is_reached_is_a_429_with_every_field(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], most: str
) -> None:
    asked = {**body, "model": "limited", most: 20}
    answers = [await client.post(path, json=asked) for _ in range(4)]
    refused = answers[-1]
    assert answers[0].status_code < 300
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    (violated,) = refused.json()["violated_policies"]
    policies: Any = http_sf.parse(refused.headers["ratelimit-policy"].encode(), tltype="list")
    named = [name for name, _ in policies]
    assert named == ["tokens", "concurrency"]
    assert violated in named
    assert int(refused.headers["retry-after"]) >= 1
    wait_ms = int(refused.headers["retry-after-ms"])
    assert 1 <= wait_ms <= 1000 * int(refused.headers["retry-after"])
    assert "x-tokens-charged" not in refused.headers


@pytest.mark.parametrize(("path", "body", "most"), ROUTES)
async def test_a_cost_that_can_never_fit_is_a_400_that_nobody_repeats(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], most: str
) -> None:
    refused = await client.post(path, json={**body, "model": "limited", most: 50})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "cost_exceeds_limit"
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers
    assert "retry-after-ms" not in refused.headers


async def test_branches_that_can_never_fit_together_are_a_400_that_nobody_repeats(
    client: httpx.AsyncClient,
) -> None:
    branches = [{"max_tokens": 18}, {"max_tokens": 18}]
    body = {**PROMPT, "model": "limited", "branches": branches}
    refused = await client.post("/v1/streams", json=body)
    assert refused.status_code == 400
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers


@pytest.mark.parametrize("stream", [True, False])
async def test_the_figures_of_an_answer_in_one_piece_are_final(
    client: httpx.AsyncClient, stream: bool
) -> None:
    body = {**CHAT, "model": "limited", "max_tokens": 20, "stream": stream}
    answer = await client.post("/v1/chat/completions", json=body)
    # 24 of 40 are reserved, 10 are used; a stream's head leaves before that is known.
    assert answer.headers["x-ratelimit-remaining-tokens"] == ("16" if stream else "30")
    assert answer.headers.get("x-tokens-charged") == (None if stream else "10")
