"""What the middleware costs a request, and a frame of a stream.

    python -m benches.bench_middleware

Everything runs in this process on one uvloop, with a ``send`` that does nothing: what is measured
is the chain alone, not a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import uvloop
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benches import middleware_apps as apps
from benches.table import Table
from benches.turns import Cost, measure
from millstream._core import Encoder, Log, Reader
from millstream.middleware import AccessLogMiddleware, RequestIdMiddleware
from millstream.streams.deliveries import Deliveries
from millstream.streams.hub import Wakeups
from millstream.streams.response import DIRECT_SEND, StreamResponse
from millstream.types import Kind

ROUNDS, REQUESTS = 15, 300
FRAMES, STREAMED = 2000, 16_000
PACKAGES = ("starlette", "slowapi", "uvloop")
HEADERS = [
    (b"host", b"127.0.0.1:8000"),
    (b"accept", b"application/json"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"connection", b"keep-alive"),
    (b"user-agent", b"OpenAI/Python 3.57.0"),
    (b"content-type", b"application/json"),
    (b"content-length", b"97"),
    (b"x-stainless-lang", b"python"),
    (b"x-stainless-async", b"false"),
    (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
]


def scope_of() -> Scope:
    """A request as Granian hands it over."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 40000),
        "scheme": "http",
        "method": "POST",
        "root_path": "",
        "path": "/v1/chat/completions",
        "raw_path": b"/v1/chat/completions",
        "query_string": b"",
        "headers": HEADERS,
        "state": {},
    }


async def receive() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def send(_message: Message) -> None:
    """What a server does is not the chain's cost."""


async def serve(app: ASGIApp, count: int) -> None:
    """So many requests, one after the other."""
    for _ in range(count):
        await app(scope_of(), receive, send)


def requests(loop: asyncio.AbstractEventLoop, app: ASGIApp, count: int) -> Callable[[], None]:
    """A case: so many requests to this app."""
    return lambda: loop.run_until_complete(serve(app, count))


# --- our streams, whose bodies go past the chain ------------------------------------------------


class Source:
    """A stream that has its tokens from this bench."""

    outcome: str | None = None

    def attach(self) -> None:
        """Nobody counts readers here."""

    def detach(self) -> None:
        """Nobody counts readers here."""

    def mark_active(self) -> None:
        """No state to move."""


async def respond(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that answers by the response that the case has made."""
    await scope["bench.response"](scope, receive, send)


async def streamed(app: ASGIApp, wakeups: Wakeups, count: int) -> None:
    """One stream of so many tokens, each sent before the next is there."""
    log, sent = Log(), 0
    encoder = Encoder(dialect="chat", framing="sse", chunk_id="c", model="m", created=0)
    response = StreamResponse(
        Source(), Reader(log, encoder), deliveries=Deliveries(wakeups.notifier)
    )
    left, loop = asyncio.Event(), asyncio.get_running_loop()
    taken: asyncio.Future[None] = loop.create_future()

    async def counting(_message: Message) -> None:
        nonlocal sent
        sent += 1
        if not taken.done():
            taken.set_result(None)

    async def connected() -> Message:
        await left.wait()
        return {"type": "http.disconnect"}

    scope = {**scope_of(), DIRECT_SEND: counting, "bench.response": response}
    serving = asyncio.ensure_future(app(scope, connected, counting))
    for _ in range(count):
        await taken
        taken = loop.create_future()
        log.append(Kind.TOKEN, " token", token_count=1, time_ns=1)
    await taken
    assert sent == count + 1  # the start, and each token by itself
    left.set()
    await serving


# --- tables -------------------------------------------------------------------------------------


def request_cases(loop: asyncio.AbstractEventLoop) -> dict[str, Callable[[], object]]:
    """One request of a bare app each."""
    wraps: dict[str, apps.Wrap] = {
        "no middleware": lambda app: app,
        "RequestIdMiddleware": RequestIdMiddleware,
        "LimitMiddleware, reserve and settle": apps.limit,
        "AuditMiddleware, a JSON line": apps.audit,
        "AccessLogMiddleware, a JSON line": AccessLogMiddleware,
        "HookMiddleware, one hook": apps.hooks,
        "**the chain**: id, limits, audit, access log": apps.chain,
        "the chain without its two lines": apps.silent_chain,
        "the chain and a hook": apps.hooked_chain,
        "the same four on BaseHTTPMiddleware": apps.base_chain,
    }
    return {name: requests(loop, wrap(apps.answers), REQUESTS) for name, wrap in wraps.items()}


def limit_cases(loop: asyncio.AbstractEventLoop) -> dict[str, Callable[[], object]]:
    """One request of a Starlette route, limited by its client's address."""
    cases: dict[str, ASGIApp] = {
        "no middleware": apps.starlette_app(),
        "**LimitMiddleware**": apps.limit(apps.starlette_app()),
        "slowapi, its ASGI middleware": apps.slowapi_app(apps.SLOWAPI["ASGI"]),
        "slowapi, its BaseHTTPMiddleware": apps.slowapi_app(apps.SLOWAPI["BaseHTTPMiddleware"]),
    }
    return {name: requests(loop, app, REQUESTS) for name, app in cases.items()}


def frame_cases(loop: asyncio.AbstractEventLoop) -> dict[str, Callable[[], object]]:
    """One stream of a bare app each; slowapi needs a route and has its own below."""
    wraps: dict[str, apps.Wrap] = {
        "no middleware": lambda app: app,
        "**the chain**: id, limits, audit, access log": apps.chain,
        "the chain and a hook": apps.hooked_chain,
        "the same four on BaseHTTPMiddleware": apps.base_chain,
    }
    return {name: requests(loop, wrap(apps.frames(FRAMES)), 1) for name, wrap in wraps.items()}


def streamed_cases(
    loop: asyncio.AbstractEventLoop, wakeups: Wakeups
) -> dict[str, Callable[[], object]]:
    """One of our streams each, a token a message, from the log to ``send``."""

    def case(wrap: apps.Wrap) -> Callable[[], object]:
        app = wrap(respond)
        return lambda: loop.run_until_complete(streamed(app, wakeups, STREAMED))

    return {
        "StreamResponse, no middleware": case(lambda app: app),
        "the same again: what the machine adds": case(lambda app: app),
        "**StreamResponse in the chain**": case(apps.chain),
        "StreamResponse in the chain and a hook": case(apps.hooked_chain),
    }


def table(
    title: str, unit: str, cases: Mapping[str, Callable[[], object]], *, calls: int, events: int
) -> Table:
    """CPU of each case, and what it adds to the first."""
    costs = measure(cases, rounds=ROUNDS, calls=calls, events=events)
    made = Table(
        "middleware",
        title,
        (unit, "median µs", "p99 µs", "CPU µs", "added CPU µs", "added, of the chain's"),
    )
    bare, ours = next(iter(costs.values())), _ours(costs)
    for name, cost in costs.items():
        made.row(
            name,
            f"{cost.median:.3f}",
            f"{cost.p99:.3f}",
            f"{cost.cpu:.3f}",
            f"{cost.cpu - bare.cpu:.3f}",
            _ratio(cost.cpu - bare.cpu, ours.cpu - bare.cpu),
        )
    return made


def _ours(costs: Mapping[str, Cost]) -> Cost:
    return next(cost for name, cost in costs.items() if "**" in name)


def _ratio(added: float, ours: float) -> str:
    # What adds next to nothing is no measure.
    return f"{added / ours:.1f} ×" if ours > 0.05 else "–"


def main() -> None:
    """Run everything in turns and print the tables."""
    apps.log_to_nowhere()
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    wakeups = loop.run_until_complete(_wakeups())
    try:
        first, *others = _tables(loop, wakeups)
        first.write(PACKAGES, below=others)
    finally:
        wakeups.close()
        loop.close()


async def _wakeups() -> Wakeups:
    return Wakeups()


def _tables(loop: asyncio.AbstractEventLoop, wakeups: Wakeups) -> list[Table]:
    a_request = table(
        "Middleware: CPU a request, around an app that answers at once",
        "around a bare app",
        request_cases(loop),
        calls=1,
        events=REQUESTS,
    )
    limited = table(
        "Middleware: CPU a request, limits alone, around a Starlette route",
        "around a route",
        limit_cases(loop),
        calls=1,
        events=REQUESTS,
    )
    limited.note("Limits in memory, never reached, with their header fields on every response.")
    limited.note(
        "slowapi 0.1.10's ASGI middleware sends the response's start again with every message of"
        " the body, so it has no place among the streams below."
    )
    a_frame = table(
        f"Middleware: CPU a frame, a plain ASGI stream of {FRAMES} frames",
        "around a bare app",
        frame_cases(loop),
        calls=1,
        events=FRAMES,
    )
    a_frame.note("A request's own cost is spread over its frames.")
    ours = table(
        f"Middleware: CPU a frame, our stream of {STREAMED} tokens from the log to `send`",
        "bodies go by DIRECT_SEND",
        streamed_cases(loop, wakeups),
        calls=1,
        events=STREAMED,
    )
    ours.note(
        "No frame passes the chain; a stream this long leaves nothing of a request's cost either."
    )
    ours.note("A turn of the loop and a wake-up for every token.")
    for made in (a_request, limited, a_frame, ours):
        made.note(f"In process, `send` does nothing; {ROUNDS} rounds, all cases in turn.")
    return [a_request, limited, a_frame, ours]


# --- pytest-benchmark ---------------------------------------------------------------------------

WRAPS: dict[str, apps.Wrap] = {
    "none": lambda app: app,
    "chain": apps.chain,
    "base_http": apps.base_chain,
}


@pytest.mark.parametrize("name", WRAPS)
def test_a_request(benchmark: Any, name: str) -> None:
    loop = uvloop.new_event_loop()
    try:
        benchmark(requests(loop, WRAPS[name](apps.answers), 1))
    finally:
        loop.close()


if __name__ == "__main__":
    main()
