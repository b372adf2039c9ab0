"""The engine's side of the socket: lets workers in and passes on what they ask for."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from typing import assert_never

from millstream._core import RingProducer
from millstream.engines.torch.connection import Connection
from millstream.engines.torch.handshake import receive_hello, same_user
from millstream.engines.torch.loop import StepLoop, Worker
from millstream.engines.torch.protocol import (
    Abort,
    FromWorker,
    Hello,
    ProtocolError,
    Stats,
    StatsRequest,
    Submit,
    Welcome,
)

_log = logging.getLogger(__name__)

_HELLO_SECONDS = 5.0
_ACCEPT_RETRY_SECONDS = 0.5


class Server:
    """Serves workers until `stop`, or until none has been connected for a while."""

    def __init__(self, listener: socket.socket, *, idle_exit_seconds: float) -> None:
        self._listener = listener
        self._idle_exit_seconds = idle_exit_seconds
        self._sessions: set[WorkerSession] = set()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._idle: asyncio.TimerHandle | None = None
        self.loaded: asyncio.Future[tuple[StepLoop, Welcome]] = (
            asyncio.get_running_loop().create_future()
        )
        """The step loop and what to tell a worker about it, once the model is loaded."""

    def stop(self) -> None:
        """Let `serve` return."""
        self._stopped.set()

    async def serve(self) -> None:
        """Accept workers until `stop`; then every connection is closed."""
        self._watch_idleness()
        accepting = asyncio.create_task(self._accept())
        try:
            await self._stopped.wait()
        finally:
            for task in (accepting, *self._handshakes):
                task.cancel()
            self._listener.close()
            for session in list(self._sessions):
                session.connection.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _ = await loop.sock_accept(self._listener)
            except OSError:
                _log.exception("no connection can be accepted at the moment")
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                continue
            task = asyncio.create_task(self._admit(peer))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _admit(self, peer: socket.socket) -> None:
        try:
            session = await self._shake_hands(peer)
        except (ProtocolError, OSError, TimeoutError, ValueError) as error:
            _log.warning("a connection was refused: %s", error or type(error).__name__)
            peer.close()
            return
        self._sessions.add(session)
        self._watch_idleness()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: session.connection, peer)
        step_loop, welcome = await asyncio.shield(self.loaded)
        session.begin(step_loop, welcome)

    async def _shake_hands(self, peer: socket.socket) -> WorkerSession:
        peer.setblocking(False)
        if not same_user(peer):
            raise ProtocolError("the peer is another user")
        async with asyncio.timeout(_HELLO_SECONDS):
            hello, memory_fd, notify_fd = await receive_hello(peer)
        ring = RingProducer(memory_fd, notify_fd)
        return WorkerSession(hello, ring, self._left)

    def _left(self, session: WorkerSession) -> None:
        self._sessions.discard(session)
        self._watch_idleness()

    def _watch_idleness(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._sessions:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(self._idle_exit_seconds, self._idle_exit)

    def _idle_exit(self) -> None:
        _log.info("no worker has been connected for %g s", self._idle_exit_seconds)
        self.stop()


class WorkerSession:
    """One worker's connection; when it closes, for whatever reason, its requests end."""

    def __init__(
        self, hello: Hello, ring: RingProducer, on_left: Callable[[WorkerSession], None]
    ) -> None:
        self._pid = hello.pid
        self._ring: RingProducer | None = ring
        self._on_left = on_left
        self._served: tuple[StepLoop, Worker] | None = None
        self._event_loop = asyncio.get_running_loop()
        self.connection: Connection[FromWorker] = Connection(
            FromWorker, self._received, self._closed
        )

    def begin(self, step_loop: StepLoop, welcome: Welcome) -> None:
        """Take requests from now on; a worker that has left meanwhile is left alone."""
        if self._ring is None or self.connection.closed:
            return
        worker, self._ring = Worker(self._ring, self._ring_broken), None
        self._served = (step_loop, worker)
        step_loop.attach(worker)
        self.connection.send(welcome)
        _log.info("worker %d connected", self._pid)

    def _received(self, message: FromWorker) -> None:
        if self._served is None:
            self.connection.abandon("a message before the welcome")
            return
        step_loop, worker = self._served
        match message:
            case Submit():
                step_loop.submit(worker, message)
            case Abort():
                step_loop.abort(worker, message.request)
            case StatsRequest():
                stats = step_loop.snapshot.stats(time.monotonic_ns())
                self.connection.send(Stats(message.token, stats))
            case Hello():
                self.connection.abandon("a second hello")
            case _:
                assert_never(message)

    def _closed(self) -> None:
        self._ring = None
        served, self._served = self._served, None
        if served is not None:
            step_loop, worker = served
            step_loop.detach(worker)
        reason = self.connection.fault or "it closed the connection"
        _log.info("worker %d has left: %s", self._pid, reason)
        self._on_left(self)

    def _ring_broken(self) -> None:
        self._event_loop.call_soon_threadsafe(self.connection.abandon, "its ring is broken")
