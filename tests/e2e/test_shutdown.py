"""SIGTERM under load: what 200 open streams are told, and what another instance still serves."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import CONFIG
from tests.e2e.frames import Frame, frames, native_text, openai_text
from tests.e2e.http1 import Connection
from tests.e2e.servers import Server, millstream_command, serving
from tests.e2e.test_resume import CHAT, STREAMS, asked, read_from, resumable
from tests.integration.valkey_server import ValkeyServer
from tests.ports import free_port
from tests.waiting import until

# Long enough for the short streams, and far too short for the others.
DRAIN_SECONDS = 15
ENDLESS = {"max_tokens": 3000}
SHORT, ROUNDS = 5, 64


@dataclass(frozen=True)
class Clients:
    """Every connection that is open when the server is told to leave."""

    leaving: list[Connection]
    short: list[Connection]
    plain: list[Connection]
    openai: list[Connection]
    native: list[Connection]

    @property
    def staying(self) -> list[Connection]:
        return [*self.short, *self.plain, *self.openai, *self.native]

    def close(self) -> None:
        for client in (*self.leaving, *self.staying):
            client.close()


@pytest.fixture(params=["memory", "valkey"])
def valkey(request: pytest.FixtureRequest) -> Iterator[ValkeyServer | None]:
    """Where the logs are kept; None is the server's own memory."""
    if request.param == "memory":
        yield None
        return
    store = ValkeyServer()
    yield store
    store.close()


@contextmanager
def instance(valkey: ValkeyServer | None, folder: Path) -> Iterator[Server]:
    """A server on this store; the next one finds the engine of the one before."""
    path, port = folder / "millstream.toml", free_port()
    kept = CONFIG.replace("[server]", f"[server]\ndrain_seconds = {DRAIN_SECONDS}").replace(
        "body_seconds = 5", "body_seconds = 120"
    )
    shared = f'[store]\nkind = "valkey"\nurl = "{valkey.url}"\n' if valkey else ""
    path.write_text(f"{kept}\n{shared}")
    with serving(millstream_command(port, path), port=port, folder=folder) as server:
        yield server


def opened(server: Server, body: dict[str, object], path: str = CHAT) -> Connection:
    """A stream that has been admitted."""
    client = Connection(server.port)
    client.post(path, body)
    assert client.read_head() == 200
    return client


def load(server: Server) -> Clients:
    """200 streams. The engine decodes the first eight, and the others wait, in this order."""
    plain = asked(stream=True, **ENDLESS)
    clients = Clients([opened(server, plain) for _ in range(SHORT)], [], [], [], [])
    for turn in range(ROUNDS + 1):
        clients.plain.append(opened(server, plain))
        clients.openai.append(opened(server, resumable(**ENDLESS)))
        clients.native.append(opened(server, asked(**ENDLESS), STREAMS))
        if turn == 0:
            short = asked(stream=True, max_tokens=6)
            clients.short.extend(opened(server, short) for _ in range(SHORT))
    until(lambda: server.metric("millstream_active_streams") >= 200, what="all are open")
    for client in (clients.plain[0], clients.openai[0], clients.native[0]):
        client.read_until(b'"content":"' if client is not clients.native[0] else b'"text":"')
    return clients


def test_200_streams_finish_or_are_shed_or_handed_over_by_the_deadline(
    valkey: ValkeyServer | None, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(instance(valkey, tmp_path))
        clients = load(server)
        stack.callback(clients.close)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not server.ready(), what="not ready")
        assert not admits(server)
        for client in clients.leaving:  # The short ones are next in the engine's queue.
            client.close()
        for client in clients.staying:
            client.read_all()
        # Granian kills a worker that is not gone some seconds after the deadline.
        assert server.process.wait(60) == 0, server.log.read_text()
        check_plain(clients)
        check_resumable(clients, shared=valkey is not None)
        if valkey is not None:
            check_served(stack.enter_context(instance(valkey, tmp_path)), clients)


def admits(server: Server) -> bool:
    """Whether a request becomes a stream; a refused connection is a no as good as a 503."""
    try:
        answer = httpx.post(f"{server.url}{CHAT}", json=asked(max_tokens=1))
    except httpx.TransportError:
        return False
    return answer.status_code != 503


def check_plain(clients: Clients) -> None:
    for client in clients.short:
        assert client.complete, client.body[-300:]
        assert client.body.endswith(b"data: [DONE]\n\n")
    for client in clients.plain:
        assert not client.complete
        assert frames(client.body)[-1].data["error"]["code"] == "shed"


def check_resumable(clients: Clients, *, shared: bool) -> None:
    for client in clients.openai:
        assert not client.complete
        told = [frame.data["stream"]["handover"] for frame in chunks(client, "stream")]
        check_handover(client, told, shared=shared)
        assert shared or frames(client.body)[-1].data["error"]["code"] == "shed"
    for client in clients.native:
        events = frames(client.body)
        assert client.complete
        assert (events[-1].event, events[-1].data) == ("done", {"outcome": "shed"})
        told = [frame.data for frame in events if frame.event == "handover"]
        check_handover(client, told, shared=shared)


def chunks(client: Connection, member: str) -> list[Frame]:
    return [frame for frame in frames(client.body) if member in frame.data]


def check_handover(client: Connection, told: list[dict[str, object]], *, shared: bool) -> None:
    """One word on where to go on, where somebody else has the stream; else none."""
    assert len(told) == shared
    for handover in told:
        assert handover["stream_id"] == client.header("x-stream-id")
        assert handover["retry_ms"] in range(2500, 4501)


def check_served(server: Server, clients: Clients) -> None:
    """Another instance has what there was of each, to its last record."""
    for wire, text in ((clients.openai, openai_text), (clients.native, native_text)):
        assert any(text(without_error(frames(client.body))) for client in wire)
        for client in wire:
            path, read = f"{STREAMS}/{client.header('x-stream-id')}", frames(client.body)
            again = read_from(server.port, path)
            assert [(f.id, f.data) for f in again] == [(f.id, f.data) for f in read]
            ended = {"Last-Event-ID": read[-1].id}
            assert httpx.get(f"{server.url}{path}", headers=ended, timeout=120).status_code == 204


def without_error(read: list[Frame]) -> list[Frame]:
    return [frame for frame in read if "error" not in frame.data]
