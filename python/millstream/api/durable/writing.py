"""PUT, POST, DELETE and HEAD of a stream."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from millstream.api.durable import headers as field
from millstream.api.durable.answers import no_stream, position, refused
from millstream.api.durable.call import Call
from millstream.api.durable.denied import Denied
from millstream.durable import OCTET_STREAM, Append, Appended, Creation, DurableStream, Refusal
from millstream.durable.expiry import ExpiresAt, TimeToLive, format_expires_at


async def create(call: Call) -> Response:
    """PUT: make the stream, or find that it exists as asked for."""
    asked = call.request.headers
    if field.FORKED_FROM in asked:
        raise Denied(501, "forks_not_supported", "Forks of streams are not supported.")
    creation = Creation(
        content_type=field.content_type_of(asked) or OCTET_STREAM,
        expiry=field.expiry_of(asked),
        closed=field.wants_closed(asked),
        body=await call.body(),
    )
    made = call.service.streams.create(
        call.key, creation, now_ns=call.now_ns(), unix_ns=call.service.wall_clock()
    )
    if isinstance(made, Refusal):
        return refused(made)
    headers = {**_description(made.stream), **position(made.stream)}
    if made.new:
        headers["location"] = _location(call)
    return Response(status_code=201 if made.new else 200, headers=headers)


async def append(call: Call) -> Response:
    """POST: append, close, or both at once."""
    call.stream()
    asked = call.request.headers
    body = await call.body()
    request = Append(
        body=body,
        content_type=field.content_type_of(asked) if body else None,
        close=field.wants_closed(asked),
        sequence=field.sequence_of(asked),
        producer=field.producer_of(asked),
    )
    stream = call.stream()
    done = stream.append(request, call.now_ns())
    if isinstance(done, Refusal):
        return refused(done, stream)
    return Response(status_code=_status(request, done), headers=_accepted(request, done, stream))


async def delete(call: Call) -> Response:
    """DELETE: end the stream; whoever reads it sees that."""
    if not call.service.streams.delete(call.key, call.now_ns()):
        raise no_stream()
    return Response(status_code=204)


async def describe(call: Call) -> Response:
    """HEAD: the stream's properties; its idle time goes on."""
    stream = call.stream()
    headers = {**_description(stream), **position(stream), "cache-control": "no-store"}
    if isinstance(stream.expiry, TimeToLive):
        headers[field.TTL] = str(stream.expiry.seconds)
    elif isinstance(stream.expiry, ExpiresAt):
        headers[field.EXPIRES_AT] = format_expires_at(stream.expiry)
    return Response(headers=headers)


def _status(request: Append, done: Appended) -> int:
    """A producer can tell what was stored now (200) from what was stored before (204)."""
    return 200 if request.producer and request.body and not done.duplicate else 204


def _accepted(request: Append, done: Appended, stream: DurableStream) -> dict[str, str]:
    headers = position(stream)
    if request.producer is not None:
        headers[field.PRODUCER_EPOCH] = str(request.producer.epoch)
        headers[field.PRODUCER_SEQUENCE] = str(done.producer_sequence)
    return headers


def _description(stream: DurableStream) -> dict[str, str]:
    return {"content-type": stream.content_type.header}


def _location(call: Call) -> str:
    return str(call.request.url.replace(path=quote(call.request.scope["path"]), query=""))
