"""A plain HTTP/2 client without TLS (prior knowledge) that can reset single streams."""

from __future__ import annotations

import json
import socket

import h2.config
import h2.connection
import h2.events
from h2.errors import ErrorCodes


class Http2Connection:
    """One connection; what arrived is kept by stream id."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.state.initiate_connection()
        self.statuses: dict[int, int] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.reset_by_server: dict[int, int] = {}
        self._flush()

    def post(self, path: str, body: object) -> int:
        """Send a POST with a JSON body; returns its stream id."""
        content = json.dumps(body).encode()
        stream = int(self.state.get_next_available_stream_id())
        self.bodies[stream] = b""
        self.state.send_headers(
            stream,
            [
                (":method", "POST"),
                (":path", path),
                (":scheme", "http"),
                (":authority", "127.0.0.1"),
                ("content-type", "application/json"),
                ("content-length", str(len(content))),
            ],
        )
        size = self.state.max_outbound_frame_size
        for start in range(0, len(content), size):
            self.state.send_data(stream, content[start : start + size])
        self.state.end_stream(stream)
        self._flush()
        return stream

    def reset(self, stream: int) -> None:
        """Give up one stream and keep the connection."""
        self.state.reset_stream(stream, ErrorCodes.CANCEL)
        self._flush()

    def read_until(self, stream: int, needle: bytes) -> None:
        while needle not in self.bodies[stream]:
            if self._over(stream):
                raise ConnectionError(f"ended without {needle!r}")
            self._receive()

    def read_all(self, stream: int) -> None:
        """Read until the stream has ended or the server has reset it."""
        while not self._over(stream):
            self._receive()

    def _over(self, stream: int) -> bool:
        return stream in self.ended or stream in self.reset_by_server

    def _receive(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection")
        for event in self.state.receive_data(data):
            self._handle(event)
        self._flush()

    def _handle(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            headers = dict(event.headers)
            self.statuses[event.stream_id] = int(headers[b":status"])
        elif isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.ended.add(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.reset_by_server[event.stream_id] = int(event.error_code)

    def _flush(self) -> None:
        self.socket.sendall(self.state.data_to_send())

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Http2Connection:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
