"""GET of a stream: what is there, or what comes next."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from millstream.api.durable import headers as field
from millstream.api.durable.answers import no_stream
from millstream.api.durable.call import Call
from millstream.api.durable.live import LiveResponse
from millstream.api.durable.query import ReadQuery, place, read_query
from millstream.durable import DurableStream
from millstream.durable.content import Extract
from millstream.durable.cursor import next_cursor
from millstream.streams.response import client_departure

CACHEABLE = "private, max-age=60, stale-while-revalidate=300"
"""Content at a position never changes; ``private``, as it is a tenant's."""
NEVER_KEPT = "no-store"


async def read(call: Call) -> Response:
    """Answer in the mode that the query asks for."""
    query = read_query(call.request.query_params)
    stream = call.stream()
    position = place(stream, query.offset)
    if query.mode == "sse":
        return LiveResponse(stream, position, query.cursor, service=call.service)
    if query.mode == "long-poll":
        return await _long_poll(call, query, stream, position)
    stream.lifetime.touch(call.now_ns())
    return _catch_up(call, query, stream, position)


def _catch_up(call: Call, query: ReadQuery, stream: DurableStream, position: int) -> Response:
    extract = stream.read(position, call.service.settings.max_read_bytes)
    headers = _reached(stream, extract.end)
    if query.now:
        return _content(stream, extract, {**headers, "cache-control": NEVER_KEPT})
    headers["etag"] = _etag(stream, position, extract.end)
    if _matches(call.request.headers.get("if-none-match"), headers["etag"]):
        return Response(status_code=304, headers=headers)
    # Nothing yet may be something a moment later.
    headers["cache-control"] = CACHEABLE if extract.end > position else NEVER_KEPT
    return _content(stream, extract, headers)


async def _long_poll(
    call: Call, query: ReadQuery, stream: DurableStream, position: int
) -> Response:
    with stream.reading(call.service.clock):
        await _until_due(call, stream, position)
    if stream.gone:
        raise no_stream()
    extract = stream.read(position, call.service.settings.max_read_bytes)
    headers = _reached(stream, extract.end)
    if field.CLOSED not in headers:
        unix_ns, jitter = call.service.wall_clock(), call.service.jitter
        headers[field.CURSOR] = next_cursor(query.cursor, unix_ns=unix_ns, jitter=jitter)
    if extract.end == position:
        return Response(status_code=204, headers={**headers, "cache-control": NEVER_KEPT})
    # `now` is another position for everybody who asks.
    headers["cache-control"] = NEVER_KEPT if query.now else CACHEABLE
    return _content(stream, extract, headers)


async def _until_due(call: Call, stream: DurableStream, position: int) -> None:
    """Wait until there is something to say, the time is over, or the client has left."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + call.service.settings.long_poll_seconds
    departure = asyncio.ensure_future(client_departure(call.request.receive))
    try:
        while (
            stream.tail == position
            and not (stream.closed or stream.gone)
            and not (departure.done() or call.service.streams.leaving)
            and (left := deadline - loop.time()) > 0
        ):
            await stream.waiters.wait(left, departure)
    finally:
        departure.cancel()


def _reached(stream: DurableStream, end: int) -> dict[str, str]:
    """What the reader knows behind ``end``."""
    headers = {field.NEXT_OFFSET: stream.offset(end)}
    if end == stream.tail:
        headers[field.UP_TO_DATE] = "true"
        if stream.closed:
            headers[field.CLOSED] = "true"
    return headers


def _content(stream: DurableStream, extract: Extract, headers: dict[str, str]) -> Response:
    return Response(extract.data, headers={"content-type": stream.content_type.header, **headers})


def _etag(stream: DurableStream, start: int, end: int) -> str:
    """Changes with the end of the stream too, which the header fields tell."""
    ended = ":closed" if stream.closed and end == stream.tail else ""
    return f'"{stream.id}:{start}:{end}{ended}"'


def _matches(condition: str | None, etag: str) -> bool:
    if condition is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in condition.split(",")]
    return etag in tags or "*" in tags
