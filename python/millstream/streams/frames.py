"""Frames that are too rare for the encoder: a gap, with the text that makes up for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from millstream._core import Encoder, Reader
from millstream.types import Usage

if TYPE_CHECKING:
    from millstream._core import Log, Notifier
    from millstream.store.descriptor import Descriptor, DialectName
    from millstream.store.recording import Recording
    from millstream.streams.encoding import Framing
    from millstream.streams.stream import Stream

_OBJECTS = {"chat": "chat.completion.chunk", "completion": "text_completion"}


class FrameReader(Protocol):
    """What a delivery asks of a reader."""

    def take(self, max_bytes: int = 65536) -> bytes:
        """Frames that are due."""
        ...

    def park(self, waiter: object, notifier: Notifier) -> bool:
        """Leave a waiter; False if something is due."""
        ...

    def unpark(self) -> None:
        """Take the waiter back."""
        ...

    def skip_gap(self) -> bool:
        """Go on at the oldest record after an overrun; False if there was none."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the terminal record has been given out."""
        ...

    @property
    def gap(self) -> tuple[int, int] | None:
        """(oldest, latest) after an overrun."""
        ...


class SnapshotReader:
    """A reader for whom nothing is lost: what the log no longer keeps comes as one gap frame.

    The frame holds the text so far, and the reader goes on after the last token in it, so a client
    puts that text in the place of its own. It may begin behind the oldest record, and fall behind
    again later.
    """

    def __init__(
        self,
        recording: Stream | Recording,
        encoder: Encoder,
        *,
        after: int,
        dialect: DialectName,
        framing: Framing,
    ) -> None:
        self._descriptor = recording.descriptor
        self._log = recording.log
        self._encoder = encoder
        self._dialect = dialect
        self._framing = framing
        self._reader = Reader(self._log, encoder, after=after)

    def take(self, max_bytes: int = 65536) -> bytes:
        """Frames that are due, or the gap frame alone."""
        frames = self._reader.take(max_bytes)
        gap = self._reader.gap
        if gap is None:
            return frames
        return frames + self._bridged(oldest=gap[0])

    def park(self, waiter: object, notifier: Notifier) -> bool:
        """Leave a waiter for the next record; False if something is due."""
        return self._reader.park(waiter, notifier)

    def unpark(self) -> None:
        """Take the waiter back."""
        self._reader.unpark()

    def skip_gap(self) -> bool:
        """False: `take` has bridged every gap."""
        return False

    @property
    def finished(self) -> bool:
        """Whether the terminal record has been given out."""
        return self._reader.finished

    @property
    def gap(self) -> None:
        """None: `take` has bridged it."""
        return

    def _bridged(self, *, oldest: int) -> bytes:
        latest = last_token(self._log, oldest=oldest)
        frame = gap_frame(
            self._descriptor,
            self._log,
            missing=(self._reader.cursor + 1, oldest - 1),
            latest=latest,
            dialect=self._dialect,
            framing=self._framing,
        )
        self._reader = Reader(self._log, self._encoder, after=latest)
        return frame


def gap_frame(
    descriptor: Descriptor,
    log: Log,
    *,
    missing: tuple[int, int],
    latest: int,
    dialect: DialectName,
    framing: Framing,
) -> bytes:
    """One frame that says which seqs are gone, with the text of every choice up to ``latest``."""
    first, last = missing
    gap = {
        "missing": {"first": first, "last": last},
        "oldest": last + 1,
        "latest": latest,
        "text": [_text(log, *entry) for entry in log.snapshot()],
        "ended": _ended(descriptor, log),
    }
    if dialect in _OBJECTS:
        return _framed(None, _chunk(descriptor, dialect, gap), framing)
    return _framed("gap", gap, framing)


def last_token(log: Log, *, oldest: int) -> int:
    """Seq of the last token record from ``oldest`` on, ``oldest - 1`` if there is none."""
    encoder = Encoder(
        dialect="native", framing="ndjson", chunk_id="", model="", created=0, metadata=True
    )
    reader, last = Reader(log, encoder, after=oldest - 1), oldest - 1
    while lines := reader.take(1 << 20):
        for line in lines.splitlines():
            event = msgspec.json.decode(line, type=_Event)
            if event.event == "token":
                last = event.stream.seq
    return last


class _Metadata(msgspec.Struct):
    seq: int = 0


class _Event(msgspec.Struct):
    event: str
    stream: _Metadata = msgspec.field(default_factory=_Metadata)


def _text(log: Log, branch: int, choice: int, omitted_bytes: int, text: str) -> dict[str, object]:
    return {
        "branch": branch,
        "choice": choice,
        "omitted_bytes": omitted_bytes,
        "text": text,
        # Its record may be among those that are gone.
        "finish_reason": log.finish_reason(choice, branch),
    }


def _ended(descriptor: Descriptor, log: Log) -> list[dict[str, object]]:
    """The branches whose last records may be among those that are gone."""
    count = len(descriptor.branches)
    outcomes = {branch: log.outcome_of(branch) for branch in range(count)} if count > 1 else {}
    return [
        {"branch": branch, "outcome": outcome, "usage": _usage(log.usage_of(branch))}
        for branch, outcome in outcomes.items()
        if outcome is not None
    ]


def _usage(text: str | None) -> dict[str, int] | None:
    return None if text is None else Usage.from_json(text).to_dict()


def _chunk(descriptor: Descriptor, dialect: DialectName, gap: object) -> dict[str, object]:
    branch = descriptor.branches[0]
    return {
        "id": branch.chunk_id,
        "object": _OBJECTS[dialect],
        "created": descriptor.created,
        "model": branch.model,
        "choices": [],
        "stream": {"gap": gap},
    }


def _framed(event: str | None, content: dict[str, object], framing: Framing) -> bytes:
    if framing == "sse":
        name = f"event: {event}\n".encode() if event else b""
        return name + b"data: " + msgspec.json.encode(content) + b"\n\n"
    return msgspec.json.encode({"event": event, **content} if event else content) + b"\n"
