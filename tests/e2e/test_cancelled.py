"""A thousand streams given up in the same moment, over real sockets, leave nothing behind.

ray-project/ray#52533: 1 % of mass-cancelled requests kept running; litellm#27955: slots leaked on
cancel. ``tests/unit/streams/test_mass_cancel.py`` looks at the tasks and readers themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import CONFIG, assert_idle
from tests.e2e.http1 import Connection, request_bytes
from tests.e2e.http2 import Http2Connection
from tests.e2e.servers import Server, millstream_command, serving
from tests.e2e.test_faults import sockets as sockets_of
from tests.e2e.test_resume import CHAT, STREAMS, asked, resumable
from tests.ports import free_port
from tests.waiting import until

MODEL = "a-thousand"
# Of each way to leave: those that read a token first, and those that only wait for one.
DECODED, WAITING = 10, 324
WAYS = 3
TOTAL = WAYS * (DECODED + WAITING)
# As many slots as streams: whatever keeps one is found out by the next thousand.
SLOTS = f"""
[models.{MODEL}]
routes = [{{ engine = "local" }}]
limits = {{ concurrency = {TOTAL} }}
timeouts = {{ first_token_seconds = 280, total_seconds = 290 }}
"""
ENDLESS = {"model": MODEL, "max_tokens": 1500}
# Granian takes 200 streams on one connection.
STREAMS_EACH = 160


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own, of which every socket is accounted for."""
    folder, port = tmp_path_factory.mktemp("cancelled"), free_port()
    config = folder / "millstream.toml"
    batch = CONFIG.replace("max_batch = 8", f"max_batch = {WAYS * DECODED}")
    # So many at once on a busy machine may take a while to be read.
    batch = batch.replace("body_seconds = 5", "body_seconds = 120")
    config.write_text(batch.replace("kv_tokens = 12288", "kv_tokens = 16384") + SLOTS)
    with serving(millstream_command(port, config), port=port, folder=folder) as server:
        yield server


class Crowd:
    """Streams that leave with their connection, by word, and by a reset, so many of each."""

    def __init__(self, server: Server, count: int) -> None:
        self._control = Connection(server.port)
        self._closing = [Connection(server.port) for _ in range(count)]
        self._lasting = [Connection(server.port) for _ in range(count)]
        self._shared = [Http2Connection(server.port) for _ in range(-(-count // STREAMS_EACH))]
        for client in self._closing:
            client.post(CHAT, asked(stream=True, **ENDLESS))
        for client in self._lasting:
            client.post(CHAT, resumable(**ENDLESS))
        plain = asked(stream=True, **ENDLESS)
        self._resetting = [
            (shared, shared.post(CHAT, plain))
            for shared in (self._shared[number // STREAMS_EACH] for number in range(count))
        ]

    def read_a_token(self) -> None:
        """Wait for the first token of each."""
        for client in (*self._closing, *self._lasting):
            client.read_until(b'"content":"')
        for shared, stream in self._resetting:
            shared.read_until(stream, b'"content":"')

    def name(self) -> None:
        """Learn the names of those that can be cancelled by name."""
        for client in self._lasting:
            if not client.head:
                assert client.read_head() == 200

    def leave(self) -> None:
        """All of them, without waiting for anything."""
        for client in self._closing:
            client.close()
        for shared, stream in self._resetting:
            shared.reset(stream)
        for client in self._lasting:
            path = f"{STREAMS}/{client.header('x-stream-id')}/cancel"
            self._control.socket.sendall(request_bytes(path, {}))

    def look_back(self) -> None:
        """What those have been told that are still here."""
        for client in self._lasting:
            client.read_all()
            assert not client.complete
            client.close()
        answers = 0
        while answers < len(self._lasting):
            data = self._control.socket.recv(65536)
            assert data, "the server closed the connection"
            answers += data.count(b'"outcome":"cancelled"}')
        self._control.close()
        for shared in self._shared:
            shared.close()


def sockets(server: Server) -> int:
    """How many the workers hold."""
    return sum(map(sockets_of, server.workers()))


def test_a_thousand_cancelled_at_once_leave_no_slot_page_stream_or_socket(crowded: Server) -> None:
    before = sockets(crowded)
    for turn in (1, 2):
        decoded = Crowd(crowded, DECODED)
        decoded.read_a_token()
        waiting = Crowd(crowded, WAITING)
        # The slots are as many as these: one that the first thousand kept would be missed here.
        until(lambda: crowded.metric("millstream_active_streams") == TOTAL, what="all are open")
        waiting.name()
        for crowd in (decoded, waiting):
            crowd.leave()
        for crowd in (decoded, waiting):
            crowd.look_back()
        assert_idle(crowded)
        gone = crowded.metric("millstream_requests_total", outcome="client_gone")
        cancelled = crowded.metric("millstream_requests_total", outcome="cancelled")
        assert gone == turn * (WAYS - 1) * (DECODED + WAITING)
        assert cancelled == turn * (DECODED + WAITING)
        until(lambda: sockets(crowded) <= before, what="every connection is closed")
    assert crowded.metric("millstream_kv_blocks_used") == 0
    assert crowded.metric("millstream_detached_streams") == 0
