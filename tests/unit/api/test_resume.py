"""``GET /v1/streams/{id}``: every answer."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from millstream.config import Settings, load_settings
from tests.unit.api.test_streams import ASKED, STREAMS, TEXT, parsed, text_of
from tests.unit.conftest import CONFIG
from tests.unit.scripted_engine import ScriptedEngine
from tests.unit.streams.parts import ManualEngine

CHAT = "/v1/chat/completions"
LAST = 6  # three tokens, a finish, the usage, the end


def many(engine: ManualEngine, request: int) -> None:
    """More tokens than the log of this test keeps."""
    for number in range(40):
        engine.token(request, f"{number} ")
    engine.finish(request, tokens=40)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "millstream.toml"
    path.write_text(f"{CONFIG}\n[streams]\nmax_records = 16\n")
    return load_settings(path, environ={})


@pytest.fixture
async def url(client: httpx.AsyncClient) -> str:
    """The path of a stream that has ended."""
    answered = await client.post(STREAMS, json=ASKED)
    return f"{STREAMS}/{answered.headers['x-stream-id']}"


def ids(body: str) -> list[str]:
    return [line.removeprefix("id: ") for line in body.split("\n") if line.startswith("id: ")]


@pytest.mark.parametrize("after", range(LAST))
async def test_a_reader_goes_on_after_its_cursor(
    client: httpx.AsyncClient, url: str, after: int
) -> None:
    wanted = [f"1-{seq}" for seq in range(after + 1, LAST + 1)]
    by_header = await client.get(url, headers={"Last-Event-ID": f"1-{after}"})
    by_parameter = await client.get(url, params={"after": f"1-{after}"})
    by_seq = await client.get(url, params={"after": after})
    for answered in (by_header, by_parameter, by_seq):
        assert answered.status_code == 200
        assert ids(answered.text) == wanted


async def test_a_stream_that_was_made_without_ids_is_read_again_with_them(
    client: httpx.AsyncClient,
) -> None:
    # Kept for its key alone; a browser that had no ids to come back with would read it for ever.
    asked = {**ASKED, "resumable": False}
    made = await client.post(STREAMS, json=asked, headers={"Idempotency-Key": "k"})
    assert ids(made.text) == []
    url = f"{STREAMS}/{made.headers['x-stream-id']}"

    again = await client.get(url)
    assert ids(again.text) == [f"1-{seq}" for seq in range(1, LAST + 1)]
    after_all = await client.get(url, headers={"Last-Event-ID": ids(again.text)[-1]})
    assert after_all.status_code == 204


async def test_without_a_cursor_all_of_it_comes_again(client: httpx.AsyncClient, url: str) -> None:
    # resumable-stream#44: a read just after the end got nothing.
    for headers in ({}, {"Last-Event-ID": ""}):
        assert text_of((await client.get(url, headers=headers)).text) == TEXT


async def test_the_header_goes_before_the_parameter(client: httpx.AsyncClient, url: str) -> None:
    answered = await client.get(url, params={"after": "2"}, headers={"Last-Event-ID": "1-4"})
    assert ids(answered.text) == ["1-5", "1-6"]
    answered = await client.get(url, params={"after": "junk"}, headers={"Last-Event-ID": "1-4"})
    assert answered.status_code == 200


async def test_who_has_it_all_is_told_to_stop(client: httpx.AsyncClient, url: str) -> None:
    answered = await client.get(url, headers={"Last-Event-ID": f"1-{LAST}"})
    assert answered.status_code == 204
    assert answered.content == b""


@pytest.mark.parametrize(
    "cursor",
    [
        "1-",
        "-1",
        "1-2-xyz",
        "1-2-0123456",
        "1-2-0123456G",
        "1-2-01234567-",
        "1--2",
        "1-2\x00",
        "1-٢",
        "１-2",
        " 1-2 3",
        "0-1",
        "1-99999999999999999999999999",
        "99999999999999999999999999-1",
        "1-9223372036854775808",
        "+1-2",
        "1-2e3",
        "0x1-2",
        "x" * 5000,
        "1-7",
        "2-1",
        "1-9223372036854775807",
    ],
    ids=lambda cursor: ascii(cursor)[:40],
)
async def test_a_cursor_that_no_event_has_is_a_400(
    client: httpx.AsyncClient, url: str, cursor: str
) -> None:
    answers = [await client.get(url, params={"after": cursor})]
    if "\x00" not in cursor:
        answers.append(await client.get(url, headers={b"Last-Event-ID": cursor.encode()}))
    for refused in answers:
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert error["code"] == "invalid_cursor"
        assert error["param"] in ("after", "Last-Event-ID")


@pytest.mark.parametrize("params", ["after=", "after=1&after=2", "after=7"])
async def test_a_parameter_that_is_no_cursor_is_a_400(
    client: httpx.AsyncClient, url: str, params: str
) -> None:
    refused = await client.get(f"{url}?{params}")
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "after"


async def test_a_bare_number_is_no_event_id(client: httpx.AsyncClient, url: str) -> None:
    refused = await client.get(url, headers={"Last-Event-ID": "3"})
    assert refused.status_code == 400


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"dialect": "klingon"}, "dialect"),
        ({"dialect": ""}, "dialect"),
        ({"on_gap": "1"}, "on_gap"),
    ],
)
async def test_a_parameter_with_a_value_that_is_not_offered_is_named(
    client: httpx.AsyncClient, url: str, params: dict[str, str], param: str
) -> None:
    refused = await client.get(url, params=params)
    assert refused.status_code == 422
    assert refused.json()["error"]["param"] == param


@pytest.mark.parametrize("name", ["unknown", "a%00b", "%2e%2e", "x" * 65, "%7Bx%7D", "a%20b", "é"])
async def test_an_unknown_name_is_a_404(client: httpx.AsyncClient, name: str) -> None:
    refused = await client.get(f"{STREAMS}/{name}", params={"after": 3})
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "stream_not_found"


async def test_a_plain_stream_is_not_to_be_found(
    client: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    answered = await client.post(STREAMS, json={**ASKED, "resumable": False, "metadata": True})
    (first, *_) = parsed(answered.text)
    stream = first[1]["stream"]
    assert isinstance(stream, dict)
    stream_id = stream["chunk_id"].removeprefix("strm-")
    assert (await client.get(f"{STREAMS}/{stream_id}")).status_code == 404


async def test_nothing_acceptable_is_a_406(client: httpx.AsyncClient, url: str) -> None:
    assert (await client.get(url, headers={"accept": "image/png"})).status_code == 406


async def test_a_reader_chooses_its_own_framing(client: httpx.AsyncClient, url: str) -> None:
    answered = await client.get(url, headers={"accept": "application/jsonl"})
    assert answered.headers["content-type"] == "application/jsonl"
    events = [json.loads(line)["event"] for line in answered.text.splitlines()]
    assert events == ["token", "token", "token", "finish", "usage", "done"]


async def test_an_openai_stream_comes_again_as_it_was_and_natively_where_asked(
    client: httpx.AsyncClient,
) -> None:
    # langgraph#7778: options of the first request were lost by the second.
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"resumable": True, "include_usage": True, "include_metadata": True},
    }
    first = await client.post(CHAT, json=body)
    url = f"{STREAMS}/{first.headers['x-stream-id']}"
    again = await client.get(url)
    without_retry = [line for line in again.text.split("\n") if not line.startswith("retry: ")]
    assert without_retry == [
        line for line in first.text.split("\n") if not line.startswith("retry: ")
    ]
    assert again.text.endswith("data: [DONE]\n\n")
    assert text_of((await client.get(url, params={"dialect": "native"})).text) == TEXT
    native = await client.post(STREAMS, json=ASKED)
    stream_url = f"{STREAMS}/{native.headers['x-stream-id']}"
    openai = await client.get(stream_url, params={"dialect": "openai"})
    assert openai.text.endswith("data: [DONE]\n\n")
    assert '"object":"chat.completion.chunk"' in openai.text


async def test_head_says_what_a_get_would_and_reads_nothing(
    client: httpx.AsyncClient, url: str
) -> None:
    answered = await client.head(url)
    assert answered.status_code == 200
    assert answered.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in answered.headers
    assert answered.content == b""
    assert (await client.head(url, params={"after": LAST})).status_code == 204
    assert (await client.head(url, params={"after": LAST + 1})).status_code == 400
    assert (await client.head(f"{STREAMS}/unknown")).status_code == 404


# --- what is no longer kept ---------------------------------------------------------------------


@pytest.fixture
async def trimmed(client: httpx.AsyncClient, engine: ScriptedEngine) -> str:
    """The path of a stream of 43 records, of which 16 are kept."""
    engine.script = many
    answered = await client.post(STREAMS, json={**ASKED, "stream": False})
    url = str(answered.json()["url"])
    await client.get(url, params={"after": 0, "on_gap": "snapshot"})
    return url


async def test_a_cursor_before_what_is_kept_is_a_410(
    client: httpx.AsyncClient, trimmed: str
) -> None:
    for params in ({}, {"after": "0"}, {"after": "1-26"}):
        refused = await client.get(trimmed, params=params)
        assert refused.status_code == 410
        body = refused.json()
        assert body["error"]["code"] == "stream_trimmed"
        assert (body["oldest"], body["latest"]) == (28, 43)
    assert ids((await client.get(trimmed, params={"after": "1-27"})).text)[0] == "1-28"


@pytest.mark.parametrize("after", [None, 5, 26])
async def test_a_gap_says_what_is_missing_and_brings_the_text_so_far(
    client: httpx.AsyncClient, trimmed: str, after: int | None
) -> None:
    params = {"on_gap": "snapshot", **({} if after is None else {"after": str(after)})}
    events = parsed((await client.get(trimmed, params=params)).text)
    name, gap = events[0]
    assert name == "gap"
    assert gap["missing"] == {"first": (after or 0) + 1, "last": 27}
    assert (gap["oldest"], gap["latest"]) == (28, 40)
    whole = "".join(f"{number} " for number in range(40))
    assert gap["text"] == [
        {"branch": 0, "choice": 0, "omitted_bytes": 0, "text": whole, "finish_reason": "stop"}
    ]
    assert [name for name, _ in events[1:]] == ["finish", "usage", "done"]


async def test_a_gap_in_openais_dialect_is_a_chunk_without_choices(
    client: httpx.AsyncClient, trimmed: str
) -> None:
    params = {"on_gap": "snapshot", "dialect": "openai"}
    body = (await client.get(trimmed, params=params)).text
    first, *_, done = [line.removeprefix("data: ") for line in body.split("\n") if "data: " in line]
    chunk = json.loads(first)
    assert (chunk["object"], chunk["choices"]) == ("chat.completion.chunk", [])
    assert chunk["stream"]["gap"]["missing"] == {"first": 1, "last": 27}
    assert done == "[DONE]"


async def test_where_nothing_is_missing_there_is_no_gap(
    client: httpx.AsyncClient, trimmed: str
) -> None:
    params = {"on_gap": "snapshot", "after": "30"}
    events = parsed((await client.get(trimmed, params=params)).text)
    assert "gap" not in [name for name, _ in events]
    assert text_of((await client.get(trimmed, params=params)).text) == "".join(
        f"{number} " for number in range(30, 40)
    )
