"""One wrapper of ``send``, however many want to see the start."""

from __future__ import annotations

import copy

import pytest
from starlette.types import Message

from millstream.middleware.response_start import ResponseStart, response_start
from tests.unit.middleware.asgi import LAST, START, request


async def through(start: ResponseStart, *messages: Message) -> list[Message]:
    exchange = request()
    send = start.watched(exchange.send)
    for message in messages:
        await send(message)
    return exchange.sent


def test_the_second_who_asks_registers_with_the_first() -> None:
    exchange = request()
    first, wrapped = response_start(exchange.scope, exchange.send)
    second, same = response_start(exchange.scope, wrapped)
    assert second is first
    assert wrapped is not exchange.send
    assert same is wrapped


async def test_fields_follow_the_apps_own_in_the_order_of_their_registration() -> None:
    start = ResponseStart()
    start.add_fields([(b"c", b"1"), (b"d", b"2")])
    start.add_fields([(b"e", b"3")])
    sent = await through(start, START)
    assert sent[0]["headers"] == [(b"a", b"b"), (b"c", b"1"), (b"d", b"2"), (b"e", b"3")]


async def test_the_apps_own_message_stays_as_it_is() -> None:
    message = copy.deepcopy(START)
    start = ResponseStart()
    start.add_fields([(b"c", b"1")])
    await through(start, message)
    assert message == START


async def test_a_start_without_header_fields_gets_them_too() -> None:
    start = ResponseStart()
    start.add_fields([(b"c", b"1")])
    sent = await through(start, {"type": "http.response.start", "status": 204})
    assert sent[0]["headers"] == [(b"c", b"1")]


async def test_without_fields_every_message_is_passed_on_itself() -> None:
    start = ResponseStart()
    start.on_body(lambda: None)
    sent = await through(start, START, LAST)
    assert sent[0] is START
    assert sent[1] is LAST


def body(content: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": more}


@pytest.mark.parametrize(
    ("messages", "calls"),
    [
        ([START, body(b"x"), body(b"y"), body(b"", more=False)], 1),
        ([START, body(b""), body(b"y", more=False)], 1),
        ([START, body(b"", more=False)], 0),
        ([START, {"type": "http.response.body"}], 0),
        ([START, {"type": "http.response.pathsend", "path": "/f"}], 1),
        ([{"type": "http.response.early_hint", "links": []}, START, body(b"x")], 1),
        ([START], 0),
    ],
)
async def test_the_body_begins_with_its_first_byte(messages: list[Message], calls: int) -> None:
    start, begun = ResponseStart(), list[int]()
    start.on_body(lambda: begun.append(1))
    sent = await through(start, *messages)
    assert len(begun) == calls
    assert sent == messages


async def test_a_body_on_another_way_says_itself_that_it_begins() -> None:
    exchange, begun = request(), list[int]()
    start, send = response_start(exchange.scope, exchange.send)
    start.on_body(lambda: begun.append(1))
    await send(START)
    exchange.scope["state"]["body_begun"]()
    exchange.scope["state"]["body_begun"]()
    await send(LAST)
    assert begun == [1]


async def test_nothing_is_looked_at_once_all_has_been_seen() -> None:
    class Opaque(dict[str, object]):
        def __getitem__(self, _key: str) -> object:
            raise AssertionError("looked at")

        get = __getitem__  # type: ignore[assignment]

    opaque = Opaque(type="http.response.body")
    start = ResponseStart()
    sent = await through(start, START, opaque)
    assert sent[1] is opaque


async def test_what_the_servers_send_returns_is_awaited_by_the_app_alone() -> None:
    # A coroutine in between would cost every frame one.
    start, returned = ResponseStart(), object()
    send = start.watched(lambda _message: returned)  # type: ignore[arg-type, return-value]
    assert send(START) is returned
