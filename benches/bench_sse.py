"""SSE: 16-record batches encoded and parsed, beside what else writes and reads such frames.

``python -m benches.bench_sse`` prints the table and keeps it in ``benches/results/sse.md``;
``pytest benches/bench_sse.py --benchmark-enable`` runs the same cases under pytest-benchmark.
Each encoder starts from records and makes the chat chunks that its interface asks for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

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

from benches.table import Table
from benches.turns import COLUMNS, add_rows, measure
from millstream import _core
from tests.reference import sse as twin

BATCH = 16
ROUNDS = 400
PER_ROUND = 10
ROUTE_EVENTS = 1600
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
FIELDS: dict[str, Any] = {"fields": True, "epoch": 7}


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
    "millstream, id and field lines": batch(_core.Encoder(**OPTIONS, **FIELDS).resumed()),
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


def main() -> None:
    """Print the table and keep it."""
    table = Table("sse", f"SSE encoder and parser, an event of batches of {BATCH}", COLUMNS)
    add_rows(table, "encoder", measure(ENCODERS, rounds=ROUNDS, calls=PER_ROUND, events=BATCH))
    add_rows(table, "route", measure(ROUTES, rounds=ROUNDS // 20, calls=1, events=ROUTE_EVENTS))
    add_rows(table, "parser", measure(PARSERS, rounds=ROUNDS // 4, calls=PER_ROUND, events=BATCH))
    length = sum(len(record.text) for record in RECORDS) / BATCH
    table.note(
        f"Chat tokens of {length:.1f} characters on average, {ROUNDS} rounds in turns. Ratios are "
        "to the first row of a group; CPU is the truer figure on a busy machine."
    )
    table.note(
        f"Routes: {ROUTE_EVENTS} events in process, `send` does nothing, FastAPI's endpoint yields "
        "pydantic models, loop of asyncio."
    )
    table.write(("fastapi", "pydantic", "sse-starlette", "openai", "httpx2"))


if __name__ == "__main__":
    main()
