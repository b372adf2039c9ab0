"""The same server over HTTP/2."""

from __future__ import annotations

from tests.e2e.http1 import events
from tests.e2e.http2 import Http2Connection
from tests.e2e.servers import Server
from tests.e2e.test_http1 import CHAT, chat
from tests.waiting import until


def test_streams_share_a_connection_and_end_whole(idle: Server) -> None:
    with Http2Connection(idle.port) as client:
        streams = [client.post(CHAT, chat(max_tokens=6)) for _ in range(4)]
        for stream in streams:
            client.read_all(stream)
        assert {client.statuses[stream] for stream in streams} == {200}
        assert all(stream in client.ended for stream in streams)
        assert all(client.bodies[stream].endswith(b"data: [DONE]\n\n") for stream in streams)


def test_a_reset_stream_stops_the_engine_while_the_connection_stays(idle: Server) -> None:
    # granian#917: a reset of one stream did not reach the application.
    with Http2Connection(idle.port) as client:
        stream = client.post(CHAT, chat(max_tokens=1500, ignore_eos=True))
        client.read_until(stream, b"data: ")
        client.reset(stream)
        until(lambda: idle.metric("millstream_engine_batch_size") == 0)
        again = client.post(CHAT, chat(max_tokens=2))
        client.read_all(again)
        assert client.bodies[again].endswith(b"data: [DONE]\n\n")


def test_a_reset_before_the_first_token_stops_the_engine(idle: Server) -> None:
    with Http2Connection(idle.port) as client:
        words = "word " * 6000
        body = chat(max_tokens=50, messages=[{"role": "user", "content": words}])
        stream = client.post(CHAT, body)
        until(lambda: idle.metric("millstream_active_streams") == 1)
        client.reset(stream)
        until(lambda: idle.metric("millstream_active_streams") == 0)
        until(lambda: idle.metric("millstream_kv_blocks_used") == 0)


def test_a_stream_that_ends_badly_is_reset_by_the_server(idle: Server) -> None:
    with Http2Connection(idle.port) as client:
        stream = client.post(CHAT, chat(model="hasty", max_tokens=1500, ignore_eos=True))
        client.read_all(stream)
        assert stream in client.reset_by_server
        last = events(client.bodies[stream])[-1]
        assert isinstance(last, dict)
        assert last["error"]["code"] == "timeout_total"
