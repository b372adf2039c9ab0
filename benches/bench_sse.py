"""SSE: 16-record batches encoded and parsed, beside what else writes and reads such frames.

``python -m benches.bench_sse`` prints the tables and keeps them in ``benches/results/sse.md``;
``pytest benches/bench_sse.py --benchmark-enable`` runs the same cases under pytest-benchmark.
Each encoder starts from records and makes the chat chunks that its interface asks for.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi import FastAPI
from fastapi._compat import ModelField
from fastapi.encoders import jsonable_encoder
from fastapi.routing import _normalize_non_finite_floats
from fastapi.sse import EventSourceResponse, ServerSentEvent, format_sse_event
from httpx2._sse import _SSEParser
from openai._streaming import SSEDecoder
from openai.types.chat import ChatCompletionChunk
from pydantic.fields import FieldInfo
from sse_starlette.event import ServerSentEvent as StarletteEvent

from millstream import _core
from tests.reference import sse as twin

BATCH = 16
ROUNDS = 400
PER_ROUND = 10
ROUTE_EVENTS = 1600
RESULTS = Path(__file__).parent / "results" / "sse.md"
CHUNK_ID, MODEL, CREATED = "chatcmpl-0123456789abcdef01234567", "smollm2-135m-instruct", 1796040000
TEXTS = ["The", " quick", " brown", ' "fox', '"', " jumps", ".\n", " Über", " 漢", " token"]
RECORDS = [
    twin.Record(seq, 1_796_040_000_000_000_000 + seq * 20_000_000, 1, 0, 1, text)
    for seq, text in enumerate((TEXTS * 2)[:BATCH], 1)
]
OPTIONS: dict[str, Any] = {
    "dialect": "chat",
    "chunk_id": CHUNK_ID,
    "model": MODEL,
    "created": CREATED,
}
METADATA: dict[str, Any] = {"metadata": True, "epoch": 7}


def chunk(record: twin.Record) -> dict[str, Any]:
    choice = {
        "index": record.choice,
        "delta": {"content": record.text},
        "logprobs": None,
        "finish_reason": None,
    }
    return {
        "id": CHUNK_ID,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": MODEL,
        "choices": [choice],
    }


CHUNK_FIELD = ModelField(
    field_info=FieldInfo(annotation=ChatCompletionChunk), name="chunk", mode="serialization"
)


def fastapi_model(record: twin.Record) -> bytes:
    """`fastapi.routing._serialize_sse_item` for an annotated stream of pydantic models."""
    value, errors = CHUNK_FIELD.validate(
        ChatCompletionChunk(**chunk(record)), {}, loc=("response",)
    )
    if errors:
        raise ValueError(errors)
    return format_sse_event(data_str=CHUNK_FIELD.serialize_json(value).decode())


def fastapi_dict(record: twin.Record) -> bytes:
    """The same for a dict and no annotation."""
    data = _normalize_non_finite_floats(jsonable_encoder(chunk(record)))
    return format_sse_event(data_str=json.dumps(data).encode().decode())


def fastapi_event(record: twin.Record) -> bytes:
    """The same for a ``ServerSentEvent``."""
    item = ServerSentEvent(data=chunk(record))
    data = json.dumps(_normalize_non_finite_floats(jsonable_encoder(item.data)))
    return format_sse_event(data_str=data, event=item.event, id=item.id, retry=item.retry)


def starlette_event(record: twin.Record) -> bytes:
    return StarletteEvent(data=json.dumps(chunk(record), separators=(",", ":"))).encode()


def template(record: twin.Record) -> bytes:
    """The least that Python can do: one template, and ``json.dumps`` of the text alone."""
    return (
        f'data: {{"id":"{CHUNK_ID}","object":"chat.completion.chunk","created":{CREATED},'
        f'"model":"{MODEL}","choices":[{{"index":{record.choice},"delta":'
        f'{{"content":{json.dumps(record.text)}}},"logprobs":null,"finish_reason":null}}]}}\n\n'
    ).encode()


def each(encode: Callable[[twin.Record], bytes]) -> Callable[[], bytes]:
    return lambda: b"".join([encode(record) for record in RECORDS])


def batch(encoder: _core.Encoder | twin.Encoder) -> Callable[[], bytes]:
    return lambda: encoder.encode(RECORDS)


def resumed_twin(**options: Any) -> twin.Encoder:
    reference = twin.Encoder(**OPTIONS, **options)
    reference.writes_roles = False
    return reference


ENCODERS: dict[str, Callable[[], bytes]] = {
    "millstream": batch(_core.Encoder(**OPTIONS).resumed()),
    "millstream, id and metadata": batch(_core.Encoder(**OPTIONS, **METADATA).resumed()),
    "twin": batch(resumed_twin()),
    "twin, id and metadata": batch(resumed_twin(**METADATA)),
    "Python template": each(template),
    "sse-starlette, json.dumps": each(starlette_event),
    "fastapi.sse, dict": each(fastapi_dict),
    "fastapi.sse, ServerSentEvent": each(fastapi_event),
    "fastapi.sse, pydantic model": each(fastapi_model),
}


FRAMES = ENCODERS["millstream"]()
BYTES = [FRAMES[at : at + 1] for at in range(len(FRAMES))]


def parse(parser: _core.SseParser | twin.Parser, pieces: Iterable[bytes]) -> int:
    return sum(len(parser.feed(piece)) for piece in pieces)


PARSERS: dict[str, Callable[[], int]] = {
    "millstream": lambda: parse(_core.SseParser(), [FRAMES]),
    "millstream, byte by byte": lambda: parse(_core.SseParser(), BYTES),
    "twin": lambda: parse(twin.Parser(), [FRAMES]),
    "openai-python SSEDecoder": lambda: sum(1 for _ in SSEDecoder().iter_bytes(iter([FRAMES]))),
    "httpx2 decoder": lambda: sum(1 for _ in _SSEParser(1 << 20).decode(FRAMES.decode())),
}


def native_route() -> FastAPI:
    app = FastAPI()

    @app.get("/", response_class=EventSourceResponse)
    async def stream() -> AsyncIterator[ChatCompletionChunk]:
        for _ in range(ROUTE_EVENTS // BATCH):
            for record in RECORDS:
                yield ChatCompletionChunk(**chunk(record))

    return app


async def batching_app(scope: Any, receive: Any, send: Any) -> None:
    encoder = _core.Encoder(**OPTIONS)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(ROUTE_EVENTS // BATCH):
        body = encoder.encode(RECORDS)
        await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def served(app: Any) -> Callable[[], int]:
    """Bytes of one response of an ASGI app, called in process."""

    async def respond() -> int:
        size = 0
        never = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await never.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            nonlocal size
            size += len(message.get("body", b""))

        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
        await app(scope, receive, send)
        return size

    return lambda: asyncio.run(respond())


ROUTES: dict[str, Callable[[], int]] = {
    "millstream encoder, one send a batch": served(batching_app),
    "FastAPI route, EventSourceResponse": served(native_route()),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_encode(benchmark: Any, name: str) -> None:
    frames = benchmark(ENCODERS[name])
    deltas = [json.loads(event.data)["choices"] for event in _core.SseParser().feed(frames)]
    assert [delta[0]["delta"]["content"] for delta in deltas] == [one.text for one in RECORDS]


@pytest.mark.parametrize("name", PARSERS)
def test_parse(benchmark: Any, name: str) -> None:
    assert benchmark(PARSERS[name]) == BATCH


@pytest.mark.parametrize("name", ROUTES)
def test_route(benchmark: Any, name: str) -> None:
    assert benchmark(ROUTES[name]) > ROUTE_EVENTS * 100


class Cost(NamedTuple):
    """Microseconds an event."""

    median: float
    p99: float
    cpu: float


def measure(
    cases: Mapping[str, Callable[[], object]], rounds: int, calls: int, events: int
) -> dict[str, Cost]:
    """Costs by case; the cases take turns, so that a busy machine is busy for all of them."""
    walls: dict[str, list[float]] = {name: [] for name in cases}
    cpus = dict.fromkeys(cases, 0.0)
    for turn in range(rounds + 1):
        for name, case in cases.items():
            case()  # warms the caches that the case before has filled with its own
            wall, cpu = time.perf_counter_ns(), time.process_time_ns()
            for _ in range(calls):
                case()
            cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
            if turn:  # the first turn warms up
                walls[name].append(wall / (1000 * calls * events))
                cpus[name] += cpu / (1000 * calls * events * rounds)
    return {
        name: Cost(statistics.median(costs), statistics.quantiles(costs, n=100)[-1], cpus[name])
        for name, costs in walls.items()
    }


def table(title: str, costs: dict[str, Cost]) -> list[str]:
    base = next(iter(costs.values()))
    return [
        f"| {title} | median µs/event | p99 | CPU | median ratio | CPU ratio |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {cost.median:.3f} | {cost.p99:.3f} | {cost.cpu:.3f} "
            f"| {cost.median / base.median:.1f} | {cost.cpu / base.cpu:.1f} |"
            for name, cost in costs.items()
        ),
        "",
    ]


def setting() -> list[str]:
    packages = ("fastapi", "pydantic", "sse-starlette", "openai", "httpx2")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    length = sum(len(record.text) for record in RECORDS) / BATCH
    return [
        f"`python -m benches.bench_sse` · CPython {platform.python_version()}, {versions} · "
        f"{os.cpu_count()} CPUs, {platform.platform()}",
        "",
        f"Batches of {BATCH} chat tokens of {length:.1f} characters on average, {ROUNDS} rounds in "
        f"turns. Routes: {ROUTE_EVENTS} events in process, `send` does nothing, FastAPI's endpoint "
        "yields pydantic models, loop of asyncio. Ratios are to the first row; CPU is the truer "
        "figure on a busy machine.",
    ]


def report() -> str:
    """The tables as Markdown."""
    lines = [
        "# SSE encoder and parser",
        "",
        *setting(),
        "",
        *table("encoder", measure(ENCODERS, ROUNDS, PER_ROUND, BATCH)),
        *table("route", measure(ROUTES, ROUNDS // 20, 1, ROUTE_EVENTS)),
        *table("parser", measure(PARSERS, ROUNDS // 4, PER_ROUND, BATCH)),
    ]
    return "\n".join(lines)


def main() -> None:
    """Prints the tables and keeps them."""
    text = report()
    sys.stdout.write(text + "\n")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text)


if __name__ == "__main__":
    main()
