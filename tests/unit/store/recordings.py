"""Streams for the store to keep."""

from __future__ import annotations

from millstream._core import Log
from millstream.store import BranchDescriptor, Descriptor, Recording
from millstream.types import Kind, Settlement

SECOND = 1_000_000_000


def descriptor(
    stream_id: str, retention_seconds: float, branches: int, **more: object
) -> Descriptor:
    return Descriptor(
        id=stream_id,
        route="chat.completion",
        dialect="chat",
        created=1_700_000_000,
        branches=(BranchDescriptor(model="m", chunk_id=f"chatcmpl-{stream_id}"),) * branches,
        retention_seconds=retention_seconds,
        **more,  # type: ignore[arg-type]
    )


def recording(
    stream_id: str,
    *texts: str,
    retention_seconds: float = 60,
    branches: int = 1,
    **more: object,
) -> Recording:
    """A live stream with these tokens."""
    described = descriptor(stream_id, retention_seconds, branches, **more)
    integrity = stream_id.encode() if described.integrity else None
    log = Log(
        max_bytes=described.max_bytes,
        max_records=described.max_records,
        integrity=integrity,
        branches=branches,
    )
    stream = Recording(described, log)
    write(stream, *texts)
    return stream


def write(stream: Recording, *texts: str) -> None:
    for text in texts:
        stream.log.append(Kind.TOKEN, text, token_count=1, time_ns=1)


def finish(stream: Recording, settlement: Settlement | None = None) -> Recording:
    """End a stream well."""
    stream.log.append(Kind.FINISH, "stop", time_ns=1)
    stream.log.append(Kind.USAGE, '{"prompt_tokens":1,"completion_tokens":2}', time_ns=1)
    figures = None if settlement is None else settlement.to_json()
    stream.log.close("completed", figures, time_ns=1)
    return stream


class Producer:
    """Notes what the store asks of it."""

    def __init__(self) -> None:
        self.cancelled: list[int | None] = []
        self.watches = 0

    def cancel(self, branch: int | None) -> None:
        self.cancelled.append(branch)

    def watched(self) -> None:
        self.watches += 1


class Observed:
    """Notes what the store tells."""

    def __init__(self) -> None:
        self.ups: list[bool] = []
        self.errors: list[str] = []
        self.entries = 0
        self.written_bytes = 0
        self.retained = (0, 0)
        self.sealed: list[tuple[str, str, str]] = []

    def store_up(self, up: bool) -> None:
        self.ups.append(up)

    def store_error(self, operation: str) -> None:
        self.errors.append(operation)

    def store_written(self, entries: int, size_bytes: int) -> None:
        self.entries += entries
        self.written_bytes += size_bytes

    def store_retained(self, streams: int, size_bytes: int) -> None:
        self.retained = (streams, size_bytes)

    def store_sealed(self, route: str, model: str, outcome: str) -> None:
        self.sealed.append((route, model, outcome))
