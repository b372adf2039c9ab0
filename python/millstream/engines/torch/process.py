"""The engine process: ``python -m millstream.engines.torch.process``.

It outlives the worker that starts it: detached, in a session of its own, it ends when told
(SIGTERM) or when no worker has been connected for a while.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.engines.torch.batch import Batch, Row
from millstream.engines.torch.loop import StepLoop
from millstream.engines.torch.options import EngineOptions
from millstream.engines.torch.protocol import PROTOCOL_VERSION, Welcome
from millstream.engines.torch.runtime import (
    EXIT_ALREADY_RUNNING,
    RuntimeDirectory,
    take_lock,
)
from millstream.engines.torch.server import Server
from millstream.errors import ConfigError
from millstream.types import SamplingParams

if TYPE_CHECKING:
    from millstream.engines.torch.runner import ModelRunner

_log = logging.getLogger(__name__)

_BACKLOG = 128
_LAST_STEP_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run the engine process; returns its exit status."""
    parser = argparse.ArgumentParser(prog="millstream-engine", description=__doc__)
    parser.add_argument("--runtime-directory", type=Path, required=True)
    parser.add_argument("--options", required=True, help="EngineOptions as JSON")
    parser.add_argument("--idle-exit-seconds", type=float, default=15.0)
    parser.add_argument("--detach", action="store_true", help="return once the socket listens")
    given = parser.parse_args(arguments)
    try:
        options = EngineOptions.from_json(given.options)
        directory = RuntimeDirectory(given.runtime_directory)
        directory.prepare()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    lock = take_lock(directory.lock)
    if lock is None:
        return EXIT_ALREADY_RUNNING
    listener = listen(directory.socket)
    if given.detach and not _detach(directory.log):
        return 0
    return _run(options, directory, listener, given.idle_exit_seconds)


def listen(path: Path) -> socket.socket:
    """A listening socket in place of whatever a former engine left there; needs the lock."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.setblocking(False)
    listener.bind(str(path))
    listener.listen(_BACKLOG)
    return listener


def load(options: EngineOptions) -> tuple[StepLoop, Welcome]:
    """Load the model and put the engine together; takes seconds, raises `ConfigError`."""
    # Torch's threads otherwise spin at every barrier. As soon as anything else wants the cores, the
    # workers for instance, a spinning thread keeps out the one it waits for: a step of SmolLM2 on
    # two busy cores took 1,500 ms that way, 200 ms with sleeping ones.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Imported here: torch must not be in the process that forks, and takes a second itself.
    from millstream._core import Emitter, Vocabulary
    from millstream.engines.torch.models import resolve_model
    from millstream.engines.torch.outlet import Outlet
    from millstream.engines.torch.pages import PagePool
    from millstream.engines.torch.runner import ModelRunner
    from millstream.engines.torch.scheduler import Scheduler
    from millstream.engines.torch.tokenizer import Tokenizer

    model = resolve_model(options.model)
    runner = ModelRunner.load(
        model,
        num_pages=options.num_pages,
        max_batch=options.max_batch,
        device=options.device,
        dtype=options.dtype,
        threads=options.threads,
    )
    warm_up(runner)
    tokenizer = Tokenizer.load(model.path)
    tokens = tokenizer.vocabulary_bytes()
    # Embeddings are often padded to a round size; should such an id be sampled, it has no text.
    tokens += [b""] * (runner.vocabulary_size - len(tokens))
    pool = PagePool(runner.num_pages, runner.page_size)
    scheduler = Scheduler(
        pool,
        runner,
        max_batch=runner.max_batch,
        max_step_tokens=options.step_tokens(accelerated=runner.overlap),
        context_length=runner.context_length,
        expected_output=options.reserve_output_tokens,
    )
    # What is loaded stays: the collector must not walk it in the middle of a step.
    gc.collect()
    gc.freeze()
    loop = StepLoop(
        scheduler,
        runner,
        Outlet(Emitter(Vocabulary(tokens, tokenizer.special_ids))),
        vocabulary_size=len(tokens),
        eos_ids=tokenizer.eos_ids,
    )
    return loop, Welcome(
        version=PROTOCOL_VERSION,
        pid=os.getpid(),
        model=model.name,
        context_length=runner.context_length,
        cache_tokens=pool.num_pages * pool.page_size,
        max_batch=runner.max_batch,
    )


def warm_up(runner: ModelRunner) -> None:
    """Compute a prompt and a decode once, so that the first user does not pay for first calls."""
    prompt, params = list(range(min(16, runner.page_size - 1))), SamplingParams(max_tokens=2)
    runner.open_slot(0, params, seed=0, prompt=prompt)
    runner.step(Batch([Row(0, [0], 0, prompt)])).ids()
    runner.step(Batch([Row(0, [0], len(prompt))])).ids()
    runner.close_slot(0)


def _detach(log: Path) -> bool:
    """Go on in a child of no one, with its output in the log; True in the child.

    The log of the process before, which may tell why it ended, is kept beside it.
    """
    with suppress(FileNotFoundError):
        log.replace(log.with_suffix(".log.1"))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    if os.fork():
        os.close(descriptor)
        return False
    os.setsid()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    return True


def _run(
    options: EngineOptions,
    directory: RuntimeDirectory,
    listener: socket.socket,
    idle_exit_seconds: float,
) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    _log.info("engine process %d starts: %s", os.getpid(), options.to_json())
    try:
        status = asyncio.run(_serve(options, listener, idle_exit_seconds))
    finally:
        directory.socket.unlink(missing_ok=True)
    _log.info("engine process %d ends with status %d", os.getpid(), status)
    logging.shutdown()
    return status


async def _serve(options: EngineOptions, listener: socket.socket, idle_exit_seconds: float) -> int:
    server = Server(listener, idle_exit_seconds=idle_exit_seconds)
    event_loop = asyncio.get_running_loop()
    event_loop.add_signal_handler(signal.SIGTERM, server.stop)
    stepping = _Stepping(options, server)
    thread = threading.Thread(target=stepping.run, name="step-loop", daemon=True)
    thread.start()
    await server.serve()
    stepping.stop()
    await asyncio.to_thread(thread.join, _LAST_STEP_SECONDS)
    return stepping.status


class _Stepping:
    """The thread that loads the model and steps; its end, whatever the reason, is the process's."""

    def __init__(self, options: EngineOptions, server: Server) -> None:
        self.status = 0
        self._options = options
        self._server = server
        self._event_loop = asyncio.get_running_loop()
        self._step_loop: StepLoop | None = None

    def run(self) -> None:
        try:
            loaded = load(self._options)
            self._step_loop, welcome = loaded
            _log.info("model %s loaded", welcome.model)
            self._tell(lambda: self._server.loaded.set_result(loaded))
            self._step_loop.run()
        except Exception:
            _log.exception("the engine cannot go on")
            self.status = 1
        self._tell(self._server.stop)

    def stop(self) -> None:
        if self._step_loop is not None:
            self._step_loop.stop()

    def _tell(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the event loop has ended first
            self._event_loop.call_soon_threadsafe(call)


if __name__ == "__main__":
    # Threads of torch and of a step that hangs must not keep the process from ending.
    os._exit(main())
