"""Random logs and readers against the twin: same bytes, same gaps, same checks."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millstream import _core
from millstream.types import Kind, Settlement
from tests.reference import log as twin
from tests.reference import sse

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SETTLEMENT = Settlement(7, 50, partial=True, remaining_tokens=3).to_json()
OPTIONS: dict[str, Any] = {
    "dialect": "native",
    "framing": "ndjson",
    "chunk_id": "c",
    "model": "m",
    "created": 1,
}


def tally_of(log: _core.Log, branch: int) -> twin.Tally:
    """What a log says about one branch."""
    reasons = {choice: log.finish_reason(choice, branch) for choice in range(3)}
    return twin.Tally(
        token_count=log.token_count_of(branch),
        first_token_ns=log.first_token_ns_of(branch),
        last_token_ns=log.last_token_ns_of(branch),
        usage=log.usage_of(branch),
        error=log.error_of(branch),
        outcome=log.outcome_of(branch),
        finish_reasons={choice: text for choice, text in reasons.items() if text is not None},
    )


class Followed(RuleBasedStateMachine):
    """A log that is written, trimmed, closed and followed by readers who come at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[sse.Record] = []
        self.readers: list[tuple[_core.Reader, twin.Reader]] = []
        self.start(max_bytes=1 << 20, max_records=1 << 16)

    def start(self, **bounds: int) -> None:
        self.log = _core.Log(integrity=b"id", branches=2, **bounds)
        self.twin = twin.Log(integrity=b"id", branches=2, **bounds)

    @precondition(lambda self: not self.written and not self.readers and not self.twin.closed)
    @rule(max_bytes=st.integers(1, 40), max_records=st.integers(1, 12))
    def bound(self, max_bytes: int, max_records: int) -> None:
        self.start(max_bytes=max_bytes, max_records=max_records)

    @precondition(lambda self: not self.twin.closed)
    @rule(
        texts=st.lists(TEXT, max_size=12),
        kind=st.sampled_from([Kind.TOKEN, Kind.TOKEN, Kind.TOKEN, Kind.FINISH]),
        choice=st.integers(0, 2),
        branch=st.integers(0, 1),
    )
    def append(self, texts: list[str], kind: Kind, choice: int, branch: int) -> None:
        for text in texts:
            seq = len(self.written) + 1
            self.written.append(sse.Record(seq, seq, kind, choice, 1, text, branch))
            for log in (self.log, self.twin):
                log.append(kind, text, choice=choice, token_count=1, branch=branch, time_ns=seq)

    @precondition(lambda self: not self.twin.closed)
    @rule(
        kind=st.sampled_from([Kind.USAGE, Kind.ERROR, Kind.BRANCH_END]),
        text=st.sampled_from(['{"a":1}', "{}"]),
        branch=st.integers(0, 1),
    )
    def end_branch(self, kind: Kind, text: str, branch: int) -> None:
        seq = len(self.written) + 1
        self.written.append(sse.Record(seq, seq, kind, 0, 0, text, branch))
        for log in (self.log, self.twin):
            log.append(kind, text, branch=branch, time_ns=seq)

    @rule(outcome=st.sampled_from(["completed", "cancelled"]), settled=st.booleans())
    def close(self, outcome: str, settled: bool) -> None:
        figures = SETTLEMENT if settled else None
        closed = self.log.close(outcome, figures, time_ns=1)
        assert closed == self.twin.close(outcome, figures, time_ns=1)

    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        after = data.draw(st.integers(0, self.twin.tail))
        rust = _core.Reader(self.log, _core.Encoder(**OPTIONS), after=after)
        self.readers.append((rust, twin.Reader(self.twin, sse.Encoder(**OPTIONS), after=after)))

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), max_bytes=st.integers(0, 300))
    def take(self, data: st.DataObject, max_bytes: int) -> None:
        rust, model = data.draw(st.sampled_from(self.readers))
        assert rust.take(max_bytes) == model.take(max_bytes)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def skip(self, data: st.DataObject) -> None:
        rust, model = data.draw(st.sampled_from(self.readers))
        assert rust.skip_gap() == model.skip_gap()

    @invariant()
    def same_log(self) -> None:
        rust, model = self.log, self.twin
        assert (rust.tail, rust.oldest, rust.bytes, rust.closed) == (
            model.tail,
            model.oldest,
            model.bytes,
            model.closed,
        )
        assert model.integrity is not None
        assert rust.checks() == model.integrity.checks()
        for seq in range(max(0, rust.oldest - 3), rust.tail + 2):
            assert rust.crc_at(seq) == model.crc_at(seq)
            assert rust.last_leaf_before(seq) == model.last_leaf_before(seq)
        assert rust.leaves() == [leaf for leaf in model.full_leaves() if leaf[1] >= model.oldest]

    @invariant()
    def same_texts(self) -> None:
        snapshot = self.log.snapshot()
        assert snapshot == self.twin.snapshot()
        for branch, choice, omitted, text in snapshot:
            whole = "".join(
                it.text
                for it in self.written
                if (it.kind, it.branch, it.choice) == (Kind.TOKEN, branch, choice)
            )
            assert whole.encode()[omitted:].decode() == text
            if omitted == 0:
                assert self.log.text(choice, branch) == whole

    @invariant()
    def same_tallies(self) -> None:
        for branch in range(2):
            assert tally_of(self.log, branch) == twin.Tally.of(self.written, branch)

    @invariant()
    def same_readers(self) -> None:
        for rust, model in self.readers:
            assert (rust.cursor, rust.gap) == (model.cursor, model.gap)


Followed.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
TestFollowed = Followed.TestCase


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(TEXT, max_size=60),
    cuts=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 400)), max_size=40),
    max_bytes=st.integers(1, 200),
)
def test_a_reader_has_the_whole_text_or_knows_exactly_what_is_missing(
    texts: list[str], cuts: list[tuple[int, int]], max_bytes: int
) -> None:
    log = _core.Log(max_bytes=max_bytes)
    reader = _core.Reader(log, _core.Encoder(**OPTIONS, metadata=True))
    read: dict[int, str] = {}
    missing: set[int] = set()

    def take(limit: int) -> None:
        for line in reader.take(limit).splitlines():
            frame = json.loads(line)
            seq = frame["stream"]["seq"]
            assert seq == max(read.keys() | missing, default=0) + 1, "in order, none twice"
            read[seq] = frame.get("text", frame.get("outcome"))
        if reader.gap is not None:
            missing.update(range(reader.cursor + 1, reader.gap[0]))
            reader.skip_gap()

    waiting = iter(texts)
    for count, limit in cuts:
        for _ in range(count):
            if (text := next(waiting, None)) is not None:
                log.append(Kind.TOKEN, text, token_count=1, time_ns=1)
        take(limit)
    for text in waiting:
        log.append(Kind.TOKEN, text, token_count=1, time_ns=1)
    log.close("completed", time_ns=1)
    while not reader.finished:
        take(400)

    whole = dict(enumerate([*texts, "completed"], 1))
    assert read.keys() | missing == whole.keys()
    assert read == {seq: text for seq, text in whole.items() if seq not in missing}
