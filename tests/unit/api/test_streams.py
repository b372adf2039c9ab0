"""``POST /v1/streams``: one model or several, streamed or left alone, and cancelled by name."""

from __future__ import annotations

import json
from collections.abc import Mapping

import httpx
import pytest

from tests.unit.scripted_engine import ScriptedEngine, answer, fail
from tests.unit.streams.parts import ManualEngine

STREAMS = "/v1/streams"
ASKED: dict[str, object] = {"model": "m", "prompt": "the capital", "max_tokens": 9}
TEXT = 'Paris, of "course"'


def silent(_engine: ManualEngine, _request: int) -> None:
    """Take the request and say nothing."""


def parsed(body: str) -> list[tuple[str, dict[str, object]]]:
    """The events of a body as names and data."""
    events = []
    for frame in body.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line)
        if "data" in lines:
            events.append((lines["event"], json.loads(lines["data"])))
    return events


def text_of(body: str) -> str:
    return "".join(str(data["text"]) for name, data in parsed(body) if name == "token")


async def test_one_model_streams_natively_with_ids_and_a_place_to_come_back_to(
    client: httpx.AsyncClient,
) -> None:
    answered = await client.post(STREAMS, json=ASKED)
    assert answered.status_code == 200
    assert answered.headers["content-type"].startswith("text/event-stream")
    names = [name for name, _ in parsed(answered.text)]
    assert names == ["token", "token", "token", "finish", "usage", "done"]
    assert text_of(answered.text) == TEXT
    ids = [line for line in answered.text.split("\n") if line.startswith("id: ")]
    assert ids == [f"id: 1-{seq}" for seq in range(1, 7)]
    stream_id = answered.headers["x-stream-id"]
    assert answered.headers["link"] == f'</v1/streams/{stream_id}>; rel="self"'


async def test_a_chat_and_metadata_and_lines_of_json(client: httpx.AsyncClient) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "metadata": True}
    answered = await client.post(STREAMS, json=body, headers={"accept": "application/x-ndjson"})
    events = [json.loads(line) for line in answered.text.splitlines()]
    assert [event["event"] for event in events][-1] == "done"
    assert events[0]["stream"]["model_id"] == "m"


async def test_without_resumption_there_are_no_ids_and_nothing_to_come_back_to(
    client: httpx.AsyncClient,
) -> None:
    answered = await client.post(STREAMS, json={**ASKED, "resumable": False})
    assert "id: " not in answered.text
    assert "x-stream-id" not in answered.headers


async def test_branches_override_the_common_fields(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    branches: list[dict[str, object]] = [
        {},
        {"temperature": 0.5, "max_tokens": 3},
        {"messages": [{"role": "user", "content": "another one here"}], "max_tokens": None},
    ]
    answered = await client.post(STREAMS, json={**ASKED, "temperature": 0, "branches": branches})
    assert answered.status_code == 200, answered.text
    prompts, params = zip(*engine.submitted, strict=True)
    assert prompts == ([3, 7], [3, 7], [7, 3, 4])
    assert [one.temperature for one in params] == [0, 0.5, 0]
    assert [one.max_tokens for one in params] == [9, 3, 20]


async def test_a_stream_that_is_left_alone_is_read_later(client: httpx.AsyncClient) -> None:
    begun = await client.post(STREAMS, json={**ASKED, "stream": False})
    assert begun.status_code == 202
    body = begun.json()
    assert body["url"] == f"/v1/streams/{body['id']}"
    assert body["branches"] == [{"model": "m", "chunk_id": f"strm-{body['id']}"}]
    assert begun.headers["x-stream-id"] == body["id"]
    assert text_of((await client.get(body["url"])).text) == TEXT


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": None}, 422, "model"),
        ({"model": "none"}, 404, "model"),
        ({"prompt": None}, 422, "messages"),
        ({"messages": [{"role": "user", "content": "x"}]}, 422, "prompt"),
        ({"prompt": ["a", "b"]}, 400, "prompt"),
        ({"prompt": [5, 100]}, 422, "prompt"),
        ({"max_tokens": 63}, 400, "max_tokens"),
        ({"max_completion_tokens": 8}, 422, "max_completion_tokens"),
        ({"n": 17}, 422, "n"),
        ({"resumable": "yes"}, 422, "resumable"),
        ({"resumable": False, "stream": False}, 400, "resumable"),
        ({"resumable": False, "integrity": True}, 400, "integrity"),
        ({"stream_options": {}}, 400, "stream_options"),
        ({"tools": [{}]}, 400, "tools"),
        ({"branches": []}, 422, "branches"),
        ({"branches": [{}] * 17}, 422, "branches"),
        ({"branches": {}}, 422, "branches"),
        ({"branches": [{"model": "none"}]}, 404, "branches[0].model"),
        ({"branches": [{}, {"model": None}]}, 422, "branches[1].model"),
        ({"branches": [{}, {"temperature": 3}]}, 422, "branches[1].temperature"),
        ({"branches": [{"temprature": 1}]}, 400, "branches[0].temprature"),
        ({"branches": [{"stream": True}]}, 400, "branches[0].stream"),
        ({"branches": [{"branches": []}]}, 400, "branches[0].branches"),
        ({"branches": [{}, {"max_tokens": 63}]}, 400, "branches[1].max_tokens"),
        ({"branches": [{"prompt": "x " * 70}]}, 400, "branches[0].prompt"),
        ({"branches": [{"prompt": "x", "messages": []}]}, 422, "branches[0].messages"),
        ({"branches": [{"messages": [{"role": "user"}]}]}, 422, "branches[0].messages[0].content"),
    ],
)
async def test_a_wrong_field_is_named_before_anything_begins(
    client: httpx.AsyncClient,
    engine: ScriptedEngine,
    fields: Mapping[str, object],
    status: int,
    param: str,
) -> None:
    refused = await client.post(STREAMS, json={**ASKED, **fields})
    assert refused.status_code == status, refused.text
    error = refused.json()["error"]
    assert error["param"] == param
    assert param.rpartition(".")[2].partition("[")[0] in error["message"]
    assert engine.submitted == []


async def test_an_unknown_member_of_a_branch_is_told_from_its_nearest(
    client: httpx.AsyncClient,
) -> None:
    refused = await client.post(STREAMS, json={**ASKED, "branches": [{"temprature": 1}]})
    assert "Did you mean 'branches[0].temperature'?" in refused.json()["error"]["message"]


async def test_branches_that_no_limit_would_ever_let_in_together_are_a_400(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    branches = [{"model": "limited"}, {"model": "limited"}]
    refused = await client.post(STREAMS, json={**ASKED, "branches": branches})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "cost_exceeds_limit"
    assert engine.submitted == []


async def test_nothing_acceptable_is_a_406_unless_nothing_is_streamed(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    headers = {"accept": "image/png"}
    refused = await client.post(STREAMS, json=ASKED, headers=headers)
    assert refused.status_code == 406
    assert engine.submitted == []
    begun = await client.post(STREAMS, json={**ASKED, "stream": False}, headers=headers)
    assert begun.status_code == 202


# --- cancel ---------------------------------------------------------------------------------------


async def begun(client: httpx.AsyncClient, **fields: object) -> str:
    answered = await client.post(STREAMS, json={**ASKED, "stream": False, **fields})
    return str(answered.json()["id"])


@pytest.mark.parametrize("body", [None, b"{}", b'{"branch": null}', b'{"branch": 0}'])
async def test_a_stream_is_cancelled_once_and_says_so_again(
    client: httpx.AsyncClient, engine: ScriptedEngine, body: bytes | None
) -> None:
    # vercel/ai#6502: stop() did not stop a resumed stream.
    engine.script = silent
    stream_id = await begun(client)
    headers = {"content-type": "application/json"} if body else {}
    for _ in range(2):
        cancelled = await client.post(
            f"{STREAMS}/{stream_id}/cancel", content=body, headers=headers
        )
        assert cancelled.status_code == 200
        assert cancelled.json() == {"id": stream_id, "outcome": "cancelled"}
    assert len(engine.aborted) == 1
    assert parsed((await client.get(f"{STREAMS}/{stream_id}")).text)[-1] == (
        "done",
        {"outcome": "cancelled"},
    )


async def test_a_stream_that_has_ended_keeps_its_outcome(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    for script, outcome in ((answer, "completed"), (fail, "upstream_error")):
        engine.script = script
        stream_id = await begun(client)
        await client.get(f"{STREAMS}/{stream_id}")
        cancelled = await client.post(f"{STREAMS}/{stream_id}/cancel")
        assert cancelled.json()["outcome"] == outcome


async def test_one_branch_is_cancelled_and_the_other_goes_on(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = silent
    stream_id = await begun(client, branches=[{}, {}])
    first, second = engine.logs
    cancelled = await client.post(f"{STREAMS}/{stream_id}/cancel", json={"branch": 1})
    assert cancelled.json() == {"id": stream_id, "outcome": "cancelled"}
    assert engine.aborted == [second]
    answer(engine, first)
    assert text_of((await client.get(f"{STREAMS}/{stream_id}")).text) == TEXT


@pytest.mark.parametrize(
    ("content", "status", "param"),
    [
        (b'{"branch": 1}', 422, "branch"),
        (b'{"branch": 16}', 422, "branch"),
        (b'{"branch": -1}', 422, "branch"),
        (b'{"branch": "0"}', 422, "branch"),
        (b'{"brunch": 0}', 400, "brunch"),
        (b"{", 400, None),
        (b"[]", 422, None),
    ],
)
async def test_a_wrong_body_cancels_nothing(
    client: httpx.AsyncClient,
    engine: ScriptedEngine,
    content: bytes,
    status: int,
    param: str | None,
) -> None:
    engine.script = silent
    stream_id = await begun(client)
    refused = await client.post(
        f"{STREAMS}/{stream_id}/cancel",
        content=content,
        headers={"content-type": "application/json"},
    )
    assert refused.status_code == status
    assert refused.json()["error"]["param"] == param
    assert engine.aborted == []


@pytest.mark.parametrize("name", ["unknown", "a%00b", "..", "x" * 65, "%7Bx%7D"])
async def test_an_unknown_name_is_a_404(client: httpx.AsyncClient, name: str) -> None:
    refused = await client.post(f"{STREAMS}/{name}/cancel", json={"branch": 0})
    assert refused.status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "", "POST"),
        ("PUT", "", "POST"),
        ("POST", "/x", "GET"),
        ("DELETE", "/x", "GET"),
        ("GET", "/x/cancel", "POST"),
    ],
)
async def test_other_methods_are_not_allowed(
    client: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    refused = await client.request(method, STREAMS + path)
    assert refused.status_code == 405
    assert refused.json()["error"]["code"] == "method_not_allowed"
    assert allowed in refused.headers["allow"]
