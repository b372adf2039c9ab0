"""Every response names its request."""

from __future__ import annotations

import pytest
from starlette.types import Message, Receive, Scope, Send

from millstream.middleware.request_id import RequestIdMiddleware


async def receive() -> Message:
    return {"type": "http.request"}


async def answer(*headers: tuple[bytes, bytes]) -> tuple[Scope, list[Message]]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"x"})

    scope: Scope = {"type": "http", "headers": list(headers)}
    await RequestIdMiddleware(app)(scope, receive, send)
    return scope, sent


async def test_a_plain_id_of_the_client_is_kept_and_echoed() -> None:
    scope, sent = await answer((b"x-request-id", b"abc-1.2:3_4"))
    assert scope["state"]["request_id"] == "abc-1.2:3_4"
    assert sent[0]["headers"] == [
        (b"a", b"b"),
        (b"x-request-id", b"abc-1.2:3_4"),
        (b"x-flow-id", b"abc-1.2:3_4"),
    ]
    assert sent[1] == {"type": "http.response.body", "body": b"x"}


@pytest.mark.parametrize("bad", [b"", b"a b", b"a\nb", b"x" * 129, "é".encode(), b'a"b'])
async def test_anything_else_is_replaced(bad: bytes) -> None:
    scope, sent = await answer((b"x-request-id", bad))
    made = scope["state"]["request_id"]
    assert made.encode() != bad
    assert len(made) == 32
    assert (b"x-request-id", made.encode()) in sent[0]["headers"]


async def test_two_requests_never_share_a_made_id() -> None:
    first, _ = await answer()
    second, _ = await answer()
    assert first["state"]["request_id"] != second["state"]["request_id"]


@pytest.mark.parametrize("kind", ["lifespan", "websocket"])
async def test_other_protocols_pass_untouched(kind: str) -> None:
    seen: list[tuple[Scope, Receive, Send]] = []

    async def send(_message: Message) -> None:
        raise AssertionError

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope, receive, send))

    scope: Scope = {"type": kind}
    await RequestIdMiddleware(app)(scope, receive, send)
    assert seen == [({"type": kind}, receive, send)]


TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACE_PARENT = (b"traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode())


@pytest.mark.parametrize(
    ("headers", "flow"),
    [
        ([(b"x-flow-id", b"job-7"), TRACE_PARENT, (b"x-request-id", b"r")], "job-7"),
        ([TRACE_PARENT, (b"x-request-id", b"r")], TRACE),
        ([(b"x-flow-id", b"a b"), TRACE_PARENT], TRACE),
        ([(b"x-flow-id", b"a\r\nb"), (b"x-request-id", b"r")], "r"),
        ([(b"traceparent", b"00-0-0-0"), (b"x-request-id", b"r")], "r"),
        ([(b"x-flow-id", b"first"), (b"x-flow-id", b"second")], "first"),
    ],
)
async def test_a_flow_is_named_by_the_client_else_its_trace_else_the_request(
    headers: list[tuple[bytes, bytes]], flow: str
) -> None:
    scope, sent = await answer(*headers)
    assert scope["state"]["flow_id"] == flow
    assert (b"x-flow-id", flow.encode()) in sent[0]["headers"]


async def test_a_request_without_any_name_is_its_own_flow() -> None:
    scope, _ = await answer()
    assert scope["state"]["flow_id"] == scope["state"]["request_id"]
    assert "trace_id" not in scope["state"]


async def test_the_trace_is_known_apart_from_the_flow() -> None:
    scope, _ = await answer((b"x-flow-id", b"job-7"), TRACE_PARENT)
    assert scope["state"]["trace_id"] == TRACE
