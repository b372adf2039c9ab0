"""``/v1/responses`` over the whole app, its engine scripted."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.unit.api.responses.strictly import as_event, as_response
from tests.unit.api.test_tenants import tenant
from tests.unit.scripted_engine import ScriptedEngine, fail, lose, refuse
from tests.unit.streams.parts import ManualEngine
from tests.waiting import until_true

RESPONSES = "/v1/responses"
ASKED: dict[str, Any] = {"model": "m", "input": "the capital of France"}
TEXT = 'Paris, of "course"'


def begin(engine: ManualEngine, request: int) -> None:
    """One token, and no more for now."""
    engine.token(request, "Paris")


def wait(engine: ManualEngine, request: int) -> None:
    """Nothing yet."""


def events(body: str) -> list[Any]:
    data = [line[6:] for line in body.split("\n") if line.startswith("data: ")]
    return [as_event(line) for line in data]


def waits(engine: ScriptedEngine) -> bool:
    """Whether somebody reads the one stream and has all that there is."""
    return any(log.waiting for log in engine.logs.values())


async def created(client: httpx.AsyncClient, **members: Any) -> str:
    """The id of a new response in the background."""
    answer = await client.post(RESPONSES, json={**ASKED, "background": True, **members})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


async def test_a_whole_response_is_kept(client: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    answer = await client.post(RESPONSES, json={**ASKED, "instructions": "Be brief"})
    assert answer.status_code == 200
    response = as_response(answer.content)
    assert (response.output_text, response.status) == (TEXT, "completed")
    assert response.id == f"resp_{answer.headers['x-stream-id']}"
    assert engine.submitted[0][0] == [2, 5, 3, 7, 2, 6]
    again = await client.get(f"{RESPONSES}/{response.id}")
    assert again.json() == answer.json()


@pytest.mark.parametrize("members", [{"store": False}, {"store": False, "stream": True}])
async def test_what_is_not_stored_has_no_name_to_be_found_by(
    client: httpx.AsyncClient, members: dict[str, Any]
) -> None:
    answer = await client.post(RESPONSES, json={**ASKED, **members})
    assert answer.status_code == 200
    assert "x-stream-id" not in answer.headers
    shown = events(answer.text)[-1].response.id if "stream" in members else answer.json()["id"]
    assert (await client.get(f"{RESPONSES}/{shown}")).status_code == 404


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "application/jsonl"])
async def test_events_come_as_lines_to_who_asks_for_lines(
    client: httpx.AsyncClient, media_type: str
) -> None:
    headers = {"accept": media_type}
    answer = await client.post(RESPONSES, json={**ASKED, "stream": True}, headers=headers)
    assert answer.headers["content-type"].startswith(media_type)
    found = [as_event(line) for line in answer.text.splitlines()]
    assert found[-1].response.output_text == TEXT
    path = f"{RESPONSES}/{found[-1].response.id}"
    again = await client.get(path, params={"stream": "true"}, headers=headers)
    assert again.text == answer.text


async def test_the_native_route_reads_a_response_as_it_was_made(client: httpx.AsyncClient) -> None:
    answer = await client.post(RESPONSES, json={**ASKED, "stream": True})
    again = await client.get(f"/v1/streams/{answer.headers['x-stream-id']}")
    assert events(again.text) == events(answer.text)


@pytest.mark.parametrize(
    ("script", "status", "code"),
    [(fail, 502, "engine_error"), (refuse, 400, "invalid_value"), (lose, 502, "engine_lost")],
)
async def test_a_failure_is_an_error_to_who_waits_and_a_status_to_who_asks_later(
    client: httpx.AsyncClient, engine: ScriptedEngine, script: Any, status: int, code: str
) -> None:
    engine.script = script
    answer = await client.post(RESPONSES, json=ASKED)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    kept = await client.get(f"{RESPONSES}/resp_{answer.headers['x-stream-id']}")
    response = as_response(kept.content)
    assert response.status == "failed"
    assert response.error is not None
    assert response.error.code == ("invalid_prompt" if script is refuse else "server_error")


async def test_a_waiting_reader_is_told_that_the_engine_failed(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    # vLLM: readers of a background response ended only on response.completed.
    engine.script = begin
    response_id = await created(client)
    path = f"{RESPONSES}/{response_id}"
    reading = asyncio.create_task(client.get(path, params={"stream": "true"}))
    await until_true(lambda: waits(engine))
    (request,) = engine.logs
    fail(engine, request)
    found = events((await reading).text)
    assert [event.type for event in found[-2:]] == ["error", "response.failed"]


async def test_a_waiting_reader_is_told_that_somebody_cancelled(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = wait
    response_id = await created(client)
    path = f"{RESPONSES}/{response_id}"
    reading = asyncio.create_task(client.get(path, params={"stream": "true"}))
    await until_true(lambda: waits(engine))
    cancelled = await client.post(f"{path}/cancel")
    found = events((await reading).text)
    assert found[0].type == "response.created"
    assert found[-1].response.status == "cancelled"
    assert json.loads(found[-1].response.to_json()) == cancelled.json()
    assert engine.aborted


async def test_who_waits_for_the_whole_gets_what_there_is_when_another_cancels(
    client: httpx.AsyncClient, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.script = begin
    monkeypatch.setattr("millstream.api.responses.create.new_stream_id", lambda: "known")
    waiting = asyncio.create_task(client.post(RESPONSES, json=ASKED))
    await until_true(lambda: waits(engine))
    await client.post(f"{RESPONSES}/resp_known/cancel")
    answer = await waiting
    assert answer.status_code == 200
    assert (answer.json()["status"], as_response(answer.content).output_text) == (
        "cancelled",
        "Paris",
    )


async def test_an_instant_abort_does_not_leave_a_response_queued(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    # community.openai.com topic 1382584.
    engine.script = wait
    path = f"{RESPONSES}/{await created(client)}"
    assert (await client.get(path)).json()["status"] == "queued"
    first = await client.post(f"{path}/cancel")
    second = await client.post(f"{path}/cancel")
    assert first.json()["status"] == "cancelled"
    assert first.json() == second.json() == (await client.get(path)).json()


async def test_a_deleted_response_stops_and_is_gone(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = begin
    response_id = await created(client)
    path = f"{RESPONSES}/{response_id}"
    reading = asyncio.create_task(client.get(path, params={"stream": "true"}))
    await until_true(lambda: waits(engine))
    deleted = await client.delete(path)
    assert deleted.json() == {"id": response_id, "object": "response", "deleted": True}
    for refused in (
        await client.get(path),
        await client.delete(path),
        await client.post(f"{path}/cancel"),
    ):
        assert refused.status_code == 404
    assert engine.aborted
    assert events((await reading).text)[-1].response.status == "cancelled"
    assert (await client.get(path)).status_code == 404


async def test_a_resumable_stream_can_be_read_again_by_event_id(
    client: httpx.AsyncClient,
) -> None:
    body = {**ASKED, "stream": True, "stream_options": {"resumable": True}}
    by_body = await client.post(RESPONSES, json=body)
    by_header = await client.post(
        RESPONSES, json={**ASKED, "stream": True}, headers={"X-Stream-Resumable": "1"}
    )
    for answer in (by_body, by_header):
        lines = answer.text.split("\n")
        assert [line for line in lines if line.startswith("id: ")] == [
            f"id: 1-{seq}" for seq in (1, 2, 3, 4, 6)
        ]
        path = f"/v1/streams/{answer.headers['x-stream-id']}"
        rest = await client.get(path, headers={"Last-Event-ID": "1-2"})
        assert events(rest.text) == events(answer.text)[6:]


def marked(body: str) -> list[dict[str, Any]]:
    """The ``stream`` members of all events."""
    data = [json.loads(line[6:]) for line in body.split("\n") if line.startswith("data: ")]
    return [event.get("stream", {}) for event in data]


@pytest.mark.parametrize("asks", [{"stream_options": {"include_metadata": True}}, {}])
async def test_metadata_and_what_was_charged_come_by_option_or_by_header(
    client: httpx.AsyncClient, asks: dict[str, Any]
) -> None:
    headers = {} if asks else {"X-Stream-Metadata": "1"}
    body = {**ASKED, "model": "limited", "max_output_tokens": 30, "stream": True, **asks}
    answer = await client.post(RESPONSES, json=body, headers=headers)
    found = marked(answer.text)
    assert [member.get("seq") for member in found] == [None] * 4 + [1, 2, 3, 4, 4, 4, 6]
    assert found[-1].pop("settled") == {
        "charged": 10,
        "reserved": 34,
        "partial": False,
        "remaining_tokens": 30,
    }
    assert not any("settled" in member for member in found)


async def test_without_metadata_no_event_has_a_member_of_ours(client: httpx.AsyncClient) -> None:
    body = {**ASKED, "stream": True, "stream_options": {"include_metadata": False}}
    answer = await client.post(RESPONSES, json=body, headers={"X-Stream-Metadata": "1"})
    assert not any(marked(answer.text))


@pytest.mark.parametrize("metadata", [True, False])
async def test_who_comes_back_gets_the_same_bytes_from_wherever_it_was_cut(
    client: httpx.AsyncClient, engine: ScriptedEngine, metadata: bool
) -> None:
    options = {"stream_options": {"resumable": True, "include_metadata": metadata}}
    for script in (None, fail):
        engine.script = script or engine.script
        answer = await client.post(RESPONSES, json={**ASKED, "stream": True, **options})
        frames = without_retry(answer.text)
        path = f"/v1/streams/{answer.headers['x-stream-id']}"
        for place, frame in enumerate(frames[:-1]):
            if frame.startswith("id: "):
                cursor = frame.partition("\n")[0].removeprefix("id: ")
                rest = await client.get(path, headers={"Last-Event-ID": cursor})
                assert without_retry(rest.text) == frames[place + 1 :]
        whole = await client.get(path)
        assert without_retry(whole.text) == frames


def without_retry(body: str) -> list[str]:
    lines = [line for line in body.split("\n") if not line.startswith("retry: ")]
    return "\n".join(lines).split("\n\n")[:-1]


async def test_a_response_in_the_background_shows_its_metadata_to_who_asks_for_it(
    client: httpx.AsyncClient,
) -> None:
    path = f"{RESPONSES}/{await created(client)}?stream=true"
    asked = await client.get(path, headers={"X-Stream-Metadata": "1"})
    assert marked(asked.text)[-1]["settled"]["charged"] == 10
    plain = await client.get(path)
    assert not any(marked(plain.text))
    assert events(plain.text)
    wrong = await client.get(path, headers={"X-Stream-Metadata": "perhaps"})
    assert wrong.status_code == 422


async def test_what_is_not_stored_cannot_be_resumed(client: httpx.AsyncClient) -> None:
    options = {"stream_options": {"resumable": True}}
    answer = await client.post(RESPONSES, json={**ASKED, "stream": True, "store": False, **options})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "stream_options.resumable"


async def test_a_resumable_stream_goes_on_when_its_reader_leaves_and_a_plain_one_does_not(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    engine.script = begin
    for resumable, aborted in ((True, 0), (False, 1)):
        body = {**ASKED, "stream": True, "stream_options": {"resumable": resumable}}
        reading = asyncio.create_task(client.post(RESPONSES, json=body))
        await until_true(lambda: waits(engine))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert len(engine.aborted) == aborted


async def test_the_same_key_gives_the_same_response(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k"}
    body = {**ASKED, "background": True}
    first, second = await asyncio.gather(
        client.post(RESPONSES, json=body, headers=headers),
        client.post(RESPONSES, json=body, headers=headers),
    )
    assert first.json()["id"] == second.json()["id"]
    other = await client.post(RESPONSES, json={**body, "input": "else"}, headers=headers)
    assert other.status_code == 422


@pytest.mark.parametrize("response_id", ["resp_", "resp_none", "none", "resp_" + "x" * 5000])
@pytest.mark.parametrize("suffix", ["", "?stream=true"])
async def test_an_unknown_response_is_not_found(
    client: httpx.AsyncClient, response_id: str, suffix: str
) -> None:
    answer = await client.get(f"{RESPONSES}/{response_id}{suffix}")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["code"] == "response_not_found"
    assert len(error["message"]) < 300


async def test_another_tenants_response_does_not_exist(client: httpx.AsyncClient) -> None:
    path = f"{RESPONSES}/{await created(client)}"
    async with tenant(client, "other") as other:
        for refused in (
            await other.get(path),
            await other.post(f"{path}/cancel"),
            await other.delete(path),
        ):
            assert refused.status_code == 404
            assert refused.json()["error"]["code"] == "response_not_found"
    assert (await client.get(path)).status_code == 200


async def test_a_stream_of_another_route_is_no_response(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/streams", json={"model": "m", "prompt": "the capital"})
    stream_id = answer.headers["x-stream-id"]
    assert (await client.get(f"/v1/streams/{stream_id}")).status_code == 200
    assert (await client.get(f"{RESPONSES}/resp_{stream_id}")).status_code == 404


@pytest.mark.parametrize(
    "query",
    [
        {"stream": "maybe"},
        {"stream": "true", "starting_after": "x"},
        {"stream": "true", "starting_after": "-1"},
        {"stream": "true", "starting_after": "9" * 30},
        {"starting_after": "3"},
        {"include": "message.output_text.logprobs"},
        {"include[]": "message.output_text.logprobs"},
    ],
)
async def test_what_cannot_be_read_is_said_by_name(
    client: httpx.AsyncClient, query: dict[str, str]
) -> None:
    path = f"{RESPONSES}/{await created(client)}"
    answer = await client.get(path, params=query)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["param"] in query or "include[]" in query


async def test_details_that_no_answer_has_can_be_asked_for(client: httpx.AsyncClient) -> None:
    path = f"{RESPONSES}/{await created(client)}"
    query = {"include[]": "reasoning.encrypted_content", "include_obfuscation": "true"}
    assert (await client.get(path, params=query)).status_code == 200


async def test_a_limit_refuses_before_anything_is_kept(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    body = {**ASKED, "model": "limited", "max_output_tokens": 30, "background": True}
    engine.script = wait
    assert (await client.post(RESPONSES, json=body)).status_code == 200
    refused = await client.post(RESPONSES, json=body)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after-ms"]) > 0


async def test_a_background_response_needs_a_store_that_all_workers_see(
    client: httpx.AsyncClient,
) -> None:
    app: Any = client._transport.app  # type: ignore[attr-defined]
    app.state.services = replace(app.state.services, several_workers=lambda: True)
    refused = await client.post(RESPONSES, json={**ASKED, "background": True})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "background"
    assert "store.kind" in refused.json()["error"]["message"]
    assert (await client.post(RESPONSES, json=ASKED)).status_code == 200
