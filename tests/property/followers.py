"""Clients that follow a stream over connections that break: what they have at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from millstream import _core
from millstream.types import Kind
from tests.reference import log as twin
from tests.reference.sse import Record

STREAM_ID = "strm-1"
BRANCHES = [("m0", "c0"), ("m1", "c1")]
EPOCH = 3


class Piece(NamedTuple):
    """One token record as a client sees it."""

    branch: int
    choice: int
    text: str


class Frame(NamedTuple):
    """One complete frame: its id, if it has one, and its piece, if it is a token."""

    id: str | None
    piece: Piece | None


class Style(NamedTuple):
    """The format in which a client reads."""

    dialect: str
    framing: str
    integrity: bool

    def encoder(self) -> _core.Encoder:
        """An encoder for one connection."""
        return _core.Encoder(
            dialect=self.dialect,
            framing=self.framing,
            chunk_id="c",
            model="m",
            created=1,
            epoch=EPOCH,
            integrity=self.integrity,
            branches=BRANCHES,
        )

    def frames(self, received: bytes) -> Iterator[Frame]:
        """The complete frames of one read; what is cut off is lost with the connection."""
        if self.framing == "ndjson":
            for line in received.split(b"\n")[:-1]:
                value = json.loads(line)
                # OpenAI's error object has no place for an id.
                named = value if self.dialect == "native" else value.get("stream", {})
                yield Frame(named.get("id"), self._piece(value, value.get("event")))
        else:
            # Parsers are per read: an event without an id line then has no id.
            parser = _core.SseParser()
            for event in parser.feed(received):
                value = {} if event.data == "[DONE]" else json.loads(event.data)
                yield Frame(event.id or None, self._piece(value, event.event))

    def _piece(self, value: dict[str, Any], event: str | None) -> Piece | None:
        if self.dialect == "native":
            if event != "token":
                return None
            return Piece(value["branch"], value["choice"], value["text"])
        for choice in value.get("choices", []):
            if "content" in choice["delta"]:
                names = [chunk_id for _, chunk_id in BRANCHES]
                branch = names.index(value["id"])
                return Piece(branch, choice["index"], choice["delta"]["content"])
        return None


class Source(Protocol):
    """Where a client connects: the log of the stream as it is there."""

    @property
    def log(self) -> _core.Log: ...


class Producer:
    """The log itself, and all that was ever written to it."""

    def __init__(self, **bounds: int) -> None:
        self.log = _core.Log(integrity=STREAM_ID.encode(), branches=len(BRANCHES), **bounds)
        self.written: list[Record] = []
        self.checks = twin.Integrity(STREAM_ID.encode())

    def append(self, record: Record) -> None:
        """Write the next record."""
        _, time_ns, kind, choice, token_count, text, branch = record
        if kind == Kind.END:
            outcome, _, figures = text.partition(" ")
            self.log.close(outcome, figures or None, time_ns=time_ns)
        else:
            self.log.append(
                kind, text, choice=choice, token_count=token_count, branch=branch, time_ns=time_ns
            )
        self.written.append(record)
        self.checks.add(record)

    def text(self, branch: int, choice: int, after: int = 0) -> str:
        """What a choice says after a seq."""
        place = (Kind.TOKEN, branch, choice)
        records = [it for it in self.written[after:] if (it.kind, it.branch, it.choice) == place]
        return "".join(record.text for record in records)


class Mirror:
    """The log on another machine, begun anew when the producer was too fast for its packer."""

    def __init__(self, producer: Producer, **bounds: int) -> None:
        self._producer = producer
        self._bounds: dict[str, Any] = {
            "integrity": STREAM_ID.encode(),
            "branches": len(BRANCHES),
            **bounds,
        }
        self.log = _core.Log(**self._bounds)

    def ship(self, max_records: int) -> bool:
        """Bring one batch over; False if nothing is due."""
        packed = self._producer.log.pack(self.log.tail, max_records=max_records)
        if packed is None:
            return False
        batch, first, _ = packed
        if first > self.log.tail + 1:
            self.log = _core.Log.mirror(batch, **self._bounds)
        else:
            self.log.unpack(batch)
        return True


class Client:
    """Reads by the ids it saw; takes what is missing as told, or as the text so far."""

    def __init__(
        self, producer: Producer, source: Source, style: Style, *, snapshots: bool
    ) -> None:
        self._producer = producer
        self._source = source
        self._style = style
        self._snapshots = snapshots
        self._last_id: str | None = None
        self._since: int = 0
        self._base: dict[tuple[int, int], tuple[int, str]] = {}
        self._pieces: dict[int, Piece] = {}
        self._missing: set[int] = set()
        self._connect()

    @property
    def finished(self) -> bool:
        """Whether this connection was read to the end of the stream."""
        return self._reader.finished

    def read(self, max_bytes: int, cut: int | None = None) -> None:
        """Take what is due; with ``cut``, lose all after that byte and the connection with it."""
        if self._log is not self._source.log:
            self._connect()
        received = self._reader.take(max_bytes)
        if cut is not None:
            received = received[: cut % (len(received) + 1)]
        for frame in self._style.frames(received):
            self._see(frame)
        if cut is not None:
            self._connect()
        elif self._reader.gap is not None:
            self._meet_gap(self._reader.gap)

    def check(self) -> None:
        """The producer's text is here, but for what was said to be missing."""
        tokens = {it.seq: it for it in self._producer.written if it.kind == Kind.TOKEN}
        expected = {
            seq: Piece(it.branch, it.choice, it.text)
            for seq, it in tokens.items()
            if seq > self._since and seq not in self._missing
        }
        assert self._pieces == expected
        places = {(it.branch, it.choice) for it in tokens.values() if it.seq <= self._since}
        for branch, choice in places:
            omitted, text = self._base.get((branch, choice), (0, ""))
            whole = self._producer.text(branch, choice).encode()
            rest = self._producer.text(branch, choice, after=self._since)
            assert whole[omitted:].decode() == text + rest

    def _connect(self) -> None:
        self._log = self._source.log
        after = 0
        if self._last_id is not None:
            after = seq_of(self._last_id)
            known = self._log.crc_at(after)
            assert known in (None, self._producer.checks.crc(after))
        self._reader = _core.Reader(self._log, self._style.encoder(), after=after)

    def _see(self, frame: Frame) -> None:
        if frame.id is not None:
            crc = f"-{self._producer.checks.crc(seq_of(frame.id)):08x}"
            assert frame.id.endswith(crc) == self._style.integrity
            self._last_id = frame.id
        if frame.piece is not None:
            assert frame.id is not None
            seq = seq_of(frame.id)
            assert seq > max(self._pieces, default=self._since), "in order, none twice"
            self._pieces[seq] = frame.piece

    def _meet_gap(self, gap: tuple[int, int]) -> None:
        oldest, latest = gap
        if self._snapshots:
            self._pieces.clear()
            self._since = self._log.tail
            self._base = {(b, c): (omitted, text) for b, c, omitted, text in self._log.snapshot()}
            self._reader = _core.Reader(self._log, self._style.encoder(), after=self._since)
        else:
            assert latest <= len(self._producer.written)
            self._missing.update(range(self._reader.cursor + 1, oldest))
            self._reader.skip_gap()


def seq_of(id_: str) -> int:
    """The seq in an event id."""
    epoch, seq, *_ = id_.split("-")
    assert int(epoch) == EPOCH
    return int(seq)
