"""A plain HTTP/1.1 client that sees chunks, cuts and resets as they are."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field


def request_bytes(path: str, body: object, *headers: str) -> bytes:
    """A POST with a JSON body."""
    content = json.dumps(body).encode()
    head = [
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *headers,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


@dataclass
class Connection:
    """One connection; ``body`` is what came so far with the chunk framing removed."""

    port: int
    receive_buffer: int | None = None
    body: bytes = b""
    head: bytes = b""
    complete: bool = False
    _raw: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        self.socket = socket.socket()
        if self.receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer)
        self.socket.settimeout(120)
        self.socket.connect(("127.0.0.1", self.port))

    def post(self, path: str, body: object, *headers: str) -> None:
        self.socket.sendall(request_bytes(path, body, *headers))

    def get(self, path: str, *headers: str) -> None:
        head = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
        self.socket.sendall("\r\n".join(head).encode() + b"\r\n\r\n")

    def header(self, name: str) -> str:
        """The value of a field of the header that was read, empty if it is not there."""
        for line in self.head.decode().split("\r\n")[1:]:
            field_name, _, value = line.partition(":")
            if field_name.lower() == name.lower():
                return value.strip()
        return ""

    def read_head(self) -> int:
        """Read to the end of the header; returns the status."""
        while b"\r\n\r\n" not in self._raw:
            if not self._more():
                raise ConnectionError("closed before the header ended")
        self.head, _, self._raw = self._raw.partition(b"\r\n\r\n")
        return int(self.head.split(b" ", 2)[1])

    def read_until(self, needle: bytes) -> None:
        """Read body until it holds ``needle``."""
        self._skip_head()
        while needle not in self.body:
            self._take_chunks()
            if needle in self.body:
                return
            if self.complete or not self._more():
                raise ConnectionError(f"ended without {needle!r}: {self.body[-300:]!r}")

    def read_all(self) -> None:
        """Read until the body is complete or the server has cut it."""
        self._skip_head()
        while not self.complete:
            self._take_chunks()
            if not self.complete and not self._more():
                return

    def rest(self) -> bytes:
        """What comes until the server closes, as it is."""
        while self._more():
            pass
        return self._raw

    def _skip_head(self) -> None:
        if not self.head:
            self.read_head()

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        self._raw += data
        return bool(data)

    def _take_chunks(self) -> None:
        while not self.complete:
            size_line, found, rest = self._raw.partition(b"\r\n")
            if not found:
                return
            size = int(size_line, 16)
            if len(rest) < size + 2:
                return
            self.body += rest[:size]
            self._raw = rest[size + 2 :]
            self.complete = size == 0

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def events(body: bytes) -> list[object]:
    """The data of each event: JSON, or the text ``[DONE]``."""
    parsed: list[object] = []
    for line in body.decode().splitlines():
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            parsed.append(data if data == "[DONE]" else json.loads(data))
    return parsed
