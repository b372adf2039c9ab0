"""Limits in the path of a real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import http_sf
import httpx
import openai
import pytest

from millstream.client import Client, Stream, StreamFailed
from tests.e2e.http1 import Connection
from tests.e2e.servers import MODEL, Server
from tests.e2e.test_http1 import CHAT, chat
from tests.e2e.test_resume import MESSAGES, STREAMS, asked, begin, read_from
from tests.waiting import until


def post(server: Server, **fields: object) -> httpx.Response:
    return httpx.post(f"{server.url}{CHAT}", json=chat(stream=False, **fields), timeout=60)


def items(header: str) -> dict[str, dict[str, Any]]:
    """Name and parameters of each item, by an independent parser."""
    parsed: Any = http_sf.parse(header.encode(), tltype="list")
    return {name: dict(parameters) for name, parameters in parsed}


def prompt_tokens(server: Server) -> int:
    """What the prompt of `asked` comes to."""
    answer = httpx.post(f"{server.url}{CHAT}", json=asked(max_tokens=1), timeout=60).json()
    return int(answer["usage"]["prompt_tokens"])


def read_and_cancel(server: Server, stream: Stream, *, after: int) -> None:
    """Read to the end, which is near once ``after`` pieces have come."""
    for number, _ in enumerate(stream, 1):
        if number == after:
            httpx.post(f"{server.url}{STREAMS}/{stream.id}/cancel")


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
    assert refused.json()["violated_policies"] == ["tokens"]
    # What was reserved beyond the real cost is back before the head of the first answer leaves.
    charged = int(granted.headers["x-tokens-charged"])
    assert charged == granted.json()["usage"]["total_tokens"]
    assert int(granted.headers["x-ratelimit-remaining-tokens"]) == 100 - charged
    for answer in (granted, refused):
        policy = items(answer.headers["ratelimit-policy"])
        assert policy["requests"] == {"q": 1000, "w": 1}
        assert policy["tokens"] == {"q": 100, "w": 60, "qu": "tokens"}
        left = items(answer.headers["ratelimit"])
        assert left["tokens"]["r"] == 100 - charged
        assert 0 < left["tokens"]["t"] <= 64


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


def test_openai_python_comes_back_when_it_was_told_to(idle: Server) -> None:
    # One retry: its own back-off of half a second would meet the limit again, which is so long that
    # no first answer takes as long.
    url = f"{idle.url}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=1) as client:
        answers = [
            client.chat.completions.with_raw_response.create(
                model="every-ten-seconds",
                messages=[{"role": "user", "content": "Hi"}],
                max_tokens=1,
            )
            for _ in range(2)
        ]
    assert answers[1].status_code == 200
    assert answers[1].retries_taken == 1
    assert items(answers[1].headers["ratelimit-policy"])["requests"] == {"q": 1, "w": 10}


def test_openai_python_does_not_repeat_what_can_never_fit(idle: Server) -> None:
    refusals = idle.metric("millstream_limiter_refusals_total")
    with (
        openai.OpenAI(base_url=f"{idle.url}/v1", api_key="none", max_retries=2) as client,
        pytest.raises(openai.BadRequestError) as error,
    ):
        client.chat.completions.create(
            model="two-a-minute", messages=[{"role": "user", "content": "Hi"}], max_tokens=1000
        )
    assert error.value.code == "cost_exceeds_limit"
    assert idle.metric("millstream_limiter_refusals_total") == refusals


def test_a_cancelled_stream_says_that_it_pays_for_its_prompt_and_what_was_emitted(
    idle: Server,
) -> None:
    # litellm#35098, #14457: a client that dropped after 40 tokens paid nothing.
    prompt = prompt_tokens(idle)
    with Connection(idle.port) as client:
        path = begin(client, asked(max_tokens=1500, metadata=True))
        client.read_until(b'"tokens"')
    httpx.post(f"{idle.url}{path}/cancel")
    events = [frame.data for frame in read_from(idle.port, path)]
    emitted = sum(event.get("tokens", 0) for event in events)
    done = events[-1]
    assert done["outcome"] == "cancelled"
    assert emitted > 0
    assert done["settled"]["charged"] == prompt + emitted
    assert done["settled"]["reserved"] == prompt + 1500
    assert (done["settled"]["partial"], done["settled"]["remaining_tokens"]) == (True, None)


def test_our_client_tells_what_a_stream_was_charged(idle: Server) -> None:
    prompt = prompt_tokens(idle)
    with Client(idle.url) as client:
        asked_for: dict[str, Any] = asked(max_tokens=5, metadata=True)
        whole = client.stream(**asked_for)
        for _ in whole:
            pass
        assert whole.settled is not None
        assert (whole.settled.charged, whole.settled.partial) == (prompt + 5, False)
        cancelled = client.stream(**asked_for | {"max_tokens": 1500})
        with pytest.raises(StreamFailed) as failed:
            read_and_cancel(idle, cancelled, after=4)
        assert failed.value.outcome == "cancelled"
        assert cancelled.settled is not None
        assert prompt + 4 <= cancelled.settled.charged < prompt + 1500
        assert cancelled.settled.partial


def test_a_client_that_drops_pays_for_its_prompt_and_what_was_emitted(idle: Server) -> None:
    prompt = prompt_tokens(idle)
    before = {
        kind: idle.metric("millstream_partial_tokens_total", model=MODEL, type=kind)
        for kind in ("prompt", "completion")
    }
    with Connection(idle.port) as client:
        client.post(CHAT, asked(stream=True, max_tokens=1500))
        client.read_until(b'"content":"')
    until(lambda: idle.metric("millstream_active_streams") == 0)
    after = {
        kind: idle.metric("millstream_partial_tokens_total", model=MODEL, type=kind)
        for kind in ("prompt", "completion")
    }
    assert after["prompt"] - before["prompt"] == prompt
    assert 1 <= after["completion"] - before["completion"] < 1500


def test_what_a_dropped_stream_did_not_use_is_left_for_the_next(idle: Server) -> None:
    # Of 400 tokens 360 are reserved, of which only some are used.
    model = "four-hundred-tokens-a-minute"
    prompt = prompt_tokens(idle)
    with Connection(idle.port) as client:
        client.post(CHAT, asked(model=model, stream=True, max_tokens=360 - prompt))
        client.read_until(b'"content":"')
        reserved_view = int(client.header("x-ratelimit-remaining-tokens"))
    assert reserved_view == 40
    until(lambda: idle.metric("millstream_active_streams") == 0)
    answer = httpx.post(f"{idle.url}{CHAT}", json=asked(model=model, max_tokens=1), timeout=60)
    assert answer.status_code == 200
    charged = int(answer.headers["x-tokens-charged"])
    left = int(answer.headers["x-ratelimit-remaining-tokens"])
    assert reserved_view < left <= 400 - charged - prompt - 1


def test_an_openai_stream_ends_in_its_figures_if_metadata_was_asked_for(idle: Server) -> None:
    prompt = prompt_tokens(idle)
    with openai.OpenAI(base_url=f"{idle.url}/v1", api_key="none") as client:
        chunks = list(
            client.chat.completions.create(
                model=MODEL,
                messages=MESSAGES,  # type: ignore[arg-type]
                max_tokens=4,
                stream=True,
                extra_body={"stream_options": {"include_metadata": True}, "ignore_eos": True},
            )
        )
    last: Any = chunks[-1]
    assert last.choices == []
    assert last.stream["settled"]["charged"] == prompt + 4
