"""A proxy that cuts the connections on which streams are read."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class CuttingProxy:
    """Forwards TCP to ``target``.

    Of each of the first ``cuts`` answers to requests that begin with one of these ``of`` it passes
    ``most`` bytes on and then cuts the connection; with ``holds`` it first waits for `release`.
    With ``between_events`` it passes on the events that are whole within these bytes.
    """

    target: int
    most: int = 2000
    cuts: int = 1
    of: tuple[bytes, ...] = (b"GET /v1/streams/",)
    holds: bool = False
    between_events: bool = False
    cut: int = 0
    heads: list[bytes] = field(default_factory=list)
    _released: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def release(self) -> None:
        """Cut what is held."""
        self._released.set()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[CuttingProxy]:
        with socket.create_server(("127.0.0.1", 0)) as self._listener:
            thread = threading.Thread(target=self._accept, daemon=True)
            thread.start()
            yield self
            self._released.set()
            self._listener.shutdown(socket.SHUT_RDWR)
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            connection = _Connection(self, client, server)
            threading.Thread(target=connection.pass_requests, daemon=True).start()
            threading.Thread(target=connection.pass_answers, daemon=True).start()

    def take_cut(self) -> bool:
        """Whether one more connection is to be cut."""
        with self._lock:
            if self.cut == self.cuts:
                return False
            self.cut += 1
            return True

    def shortened(self, data: bytes, most: int) -> bytes:
        """What is passed on of the last bytes."""
        end = data.rfind(b"\n\n", 0, most) + 2 if self.between_events else most
        return data[:end]

    def wait(self) -> None:
        if self.holds:
            self._released.wait(60)


class _Connection:
    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._left: int | None = None

    def pass_requests(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(65536):
                if data.startswith(self._proxy.of):
                    self._proxy.heads.append(data.partition(b"\r\n\r\n")[0])
                    self._left = self._proxy.most if self._proxy.take_cut() else None
                self._server.sendall(data)
        self._close()

    def pass_answers(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(65536):
                if self._left is not None and len(data) >= self._left:
                    self._client.sendall(self._proxy.shortened(data, self._left))
                    self._proxy.wait()
                    break
                self._left = None if self._left is None else self._left - len(data)
                self._client.sendall(data)
        self._close()

    def _close(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
