"""A stream's native frames with all checks, each written out from the specification."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field

from millstream.types import Kind
from tests.reference.log import LEAF_TOKENS, Integrity, prefixed
from tests.reference.sse import Record

USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
_NAMES = ("token", "finish", "usage", "error", "done", "handover", "branch_done")


@dataclass(frozen=True)
class Frame:
    """One event; seq 0 for one that is not stored."""

    seq: int
    data: bytes


@dataclass
class NativeStream:
    """All records of one stream; its frames are computed when asked."""

    stream_id: str
    epoch: int = 1
    integrity: bool = True
    records: list[Record] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)

    def add(self, kind: Kind, text: str, *, choice: int = 0) -> None:
        seq = len(self.records) + 1
        self.records.append(Record(seq, seq, kind, choice, int(kind is Kind.TOKEN), text))
        self.epochs.append(self.epoch)

    @property
    def text(self) -> str:
        return "".join(one.text for one in self.records if one.kind == Kind.TOKEN)

    def crc(self, seq: int) -> int:
        tokens = (one for one in self.records[:seq] if one.kind == Kind.TOKEN)
        return zlib.crc32(b"".join(prefixed(one.text.encode()) for one in tokens))

    def id(self, seq: int) -> str:
        crc = f"-{self.crc(seq):08x}" if self.integrity else ""
        return f"{self.epochs[seq - 1]}-{seq}{crc}"

    def leaf_ends(self) -> list[int]:
        """The seqs of the records that complete a leaf."""
        tokens = [one.seq for one in self.records if one.kind == Kind.TOKEN]
        return tokens[LEAF_TOKENS - 1 :: LEAF_TOKENS] if self.integrity else []

    def frames(self, after: int = 0) -> list[Frame]:
        """What a reader gets that has read up to ``after``."""
        found = []
        for record in self.records[after:]:
            found.append(Frame(record.seq, self._event(record)))
            if record.seq in self.leaf_ends():
                found.append(Frame(0, self._leaf(record.seq)))
        return found

    def restart(self, seq: int, crc: int | None) -> int:
        """Where a reader goes on that comes back with this: its last leaf if the text differs."""
        if crc is None or crc == self.crc(seq):
            return seq
        return max((end for end in self.leaf_ends() if end <= seq), default=0)

    def _checks(self) -> Integrity:
        checks = Integrity(self.stream_id.encode())
        for record in self.records:
            checks.add(record)
        return checks

    def _event(self, record: Record) -> bytes:
        name = _NAMES[record.kind - 1]
        return frame(name, self._value(record), event_id=self.id(record.seq))

    def _value(self, record: Record) -> dict[str, object]:
        match Kind(record.kind):
            case Kind.TOKEN:
                return {"choice": record.choice, "text": record.text, "tokens": record.token_count}
            case Kind.FINISH:
                return {"choice": record.choice, "finish_reason": record.text}
            case Kind.USAGE:
                return {"usage": json.loads(record.text)}
            case Kind.ERROR:
                return {"error": json.loads(record.text)}
            case Kind.HANDOVER:
                handover: dict[str, object] = json.loads(record.text)
                return handover | {"after": self.id(record.seq)}
            case Kind.BRANCH_END:
                return {"branch": 0, "outcome": record.text}
        return {"outcome": record.text} | ({"checks": self._sum()} if self.integrity else {})

    def _sum(self) -> dict[str, object]:
        records, size, crc, root = self._checks().checks()
        return {"records": records, "bytes": size, "crc": f"{crc:08x}", "root": root.hex()}

    def _leaf(self, seq: int) -> bytes:
        index, _, digest = next(leaf for leaf in self._checks().leaves() if leaf[1] == seq)
        last = f"{self.epochs[seq - 1]}-{seq}"
        return frame("leaf", {"index": index, "digest": digest.hex(), "last": last})


def frame(name: str, value: object, *, event_id: str | None = None) -> bytes:
    """One server-sent event."""
    id_line = "" if event_id is None else f"id: {event_id}\n"
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{id_line}event: {name}\ndata: {data}\n\n".encode()


def completed(texts: list[str], stream_id: str = "s1", *, integrity: bool = True) -> NativeStream:
    """A stream of one choice that went well."""
    stream = NativeStream(stream_id, integrity=integrity)
    for text in texts:
        stream.add(Kind.TOKEN, text)
    stream.add(Kind.FINISH, "stop")
    stream.add(Kind.USAGE, json.dumps(USAGE))
    stream.add(Kind.END, "completed")
    return stream
