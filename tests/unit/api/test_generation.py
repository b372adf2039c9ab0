"""From a request to its answer, over the whole app."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from millstream.types import SamplingParams
from tests.unit.scripted_engine import ScriptedEngine, fail, lose, refuse
from tests.unit.streams.parts import ManualEngine

CHAT = "/v1/chat/completions"
ASKED: dict[str, object] = {
    "model": "m",
    "messages": [{"role": "user", "content": "the capital of France"}],
}


async def test_a_chat_is_answered_whole(client: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    answer = await client.post(CHAT, json={**ASKED, "temperature": 0, "max_tokens": 9})
    assert answer.status_code == 200
    body = answer.json()
    assert body.pop("id").startswith("chatcmpl-")
    assert body.pop("created") > 1_700_000_000
    assert body == {
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": 'Paris, of "course"',
                    "refusal": None,
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
    assert engine.submitted == [([3, 7, 2, 6], SamplingParams(max_tokens=9, temperature=0))]


async def test_a_completion_is_answered_whole(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/completions", json={"model": "m", "prompt": "the capital"})
    body = answer.json()
    assert body["id"].startswith("cmpl-")
    assert body["object"] == "text_completion"
    assert body["choices"][0]["text"] == 'Paris, of "course"'
    assert "message" not in body["choices"][0]


async def test_a_stream_ends_in_done_and_shows_usage_where_it_is_asked_for(
    client: httpx.AsyncClient,
) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    answer = await client.post(CHAT, json={**ASKED, **options})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    *chunks, done = (line.removeprefix("data: ") for line in answer.text.split("\n\n") if line)
    assert done == "[DONE]"
    assert json.loads(chunks[-1])["usage"]["total_tokens"] == 10
    deltas = [choice["delta"] for chunk in chunks for choice in json.loads(chunk)["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == 'Paris, of "course"'


@pytest.mark.parametrize("asks", [{"stream_options": {"include_metadata": True}}, {}])
async def test_metadata_comes_by_option_or_by_header(
    client: httpx.AsyncClient, asks: dict[str, object]
) -> None:
    headers = {} if asks else {"x-stream-metadata": "1"}
    accept = {"accept": "application/jsonl"}
    body = {**ASKED, "stream": True, **asks}
    answer = await client.post(CHAT, json=body, headers={**accept, **headers})
    assert answer.headers["content-type"] == "application/jsonl"
    seqs = [json.loads(line)["stream"]["seq"] for line in answer.text.splitlines()]
    # Three tokens, the finish, and what it was charged; the usage was not asked for.
    assert seqs == [1, 2, 3, 4, 6]


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [(fail, 502, "engine_error"), (refuse, 400, "invalid_value"), (lose, 502, "engine_lost")],
)
async def test_a_stream_that_ends_badly_is_an_error_to_who_wanted_it_whole(
    client: httpx.AsyncClient,
    engine: ScriptedEngine,
    script: Callable[[ManualEngine, int], None],
    status: int,
    code: str,
) -> None:
    engine.script = script
    answer = await client.post(CHAT, json=ASKED)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code


async def test_an_engine_that_is_away_is_a_503_with_a_wait(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    engine.ready = False
    answer = await client.post(CHAT, json=ASKED)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "engine_unavailable"
    assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "none"}, 404, "model"),
        ({"stream_options": {}}, 400, "stream_options"),
        (
            {"stream": True, "stream_options": {"resumable": False, "integrity": True}},
            400,
            "stream_options.integrity",
        ),
        ({"stream": True, "stream_options": {"fields": 1}}, 422, "stream_options.fields"),
        ({"stream": True, "stream_options": {"colour": True}}, 400, "stream_options.colour"),
        ({"tools": [{}]}, 400, "tools"),
        ({"max_tokens": 61}, 400, "max_tokens"),
        ({"messages": [{"role": "user", "content": "a " * 64}]}, 400, "messages"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "messages[0].content[0].type",
        ),
    ],
)
async def test_what_cannot_be_served_never_reaches_the_engine(
    client: httpx.AsyncClient,
    engine: ScriptedEngine,
    fields: dict[str, object],
    status: int,
    param: str,
) -> None:
    answer = await client.post(CHAT, json={**ASKED, **fields})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["param"] == param
    assert engine.submitted == []


async def test_a_prompt_too_long_to_be_encoded_on_the_loop_is_encoded_beside_it(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    answer = await client.post("/v1/completions", json={"model": "m", "prompt": "x" * 5000})
    assert answer.status_code == 200
    assert engine.submitted[0][0] == [5000]


@pytest.mark.parametrize(
    ("prompt", "status"), [([5, 99], 200), ([5, 100], 422), ("", 422), (["a", "b"], 400)]
)
async def test_a_completion_takes_one_prompt_of_known_ids(
    client: httpx.AsyncClient, prompt: object, status: int
) -> None:
    answer = await client.post("/v1/completions", json={"model": "m", "prompt": prompt})
    assert answer.status_code == status
    if status != 200:
        assert answer.json()["error"]["param"] == "prompt"


async def test_a_lease_is_settled_with_the_real_cost(client: httpx.AsyncClient) -> None:
    # 24 tokens are reserved of 40, 10 are used: twice fits only if the rest was given back.
    remaining = []
    for _ in range(2):
        answer = await client.post(CHAT, json={**ASKED, "model": "limited", "max_tokens": 20})
        assert answer.status_code == 200
        assert answer.headers["x-tokens-charged"] == "10"
        remaining.append(answer.headers["x-ratelimit-remaining-tokens"])
    assert remaining == ["30", "20"]
    refused = await client.post(CHAT, json={**ASKED, "model": "limited", "max_tokens": 20})
    assert refused.status_code == 429
    text = (await client.get("/metrics")).text
    assert 'millstream_limiter_refusals_total{dimension="tokens",scope="model"} 1.0' in text


async def test_a_cost_that_no_limit_would_ever_grant_is_a_400(client: httpx.AsyncClient) -> None:
    answer = await client.post(CHAT, json={**ASKED, "model": "limited", "max_tokens": 50})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "cost_exceeds_limit"
    assert answer.headers["x-should-retry"] == "false"
    assert "retry-after" not in answer.headers
