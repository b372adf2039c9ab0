"""Logs packed into batches and mirrored: same records, same checks, same texts and tallies."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream import _core
from millstream.types import Kind, Settlement
from tests.property.test_log import OPTIONS, tally_of
from tests.reference import log as twin
from tests.reference.sse import Record

BRANCHES = 3
STREAM_ID = b"id"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
WORDS = {
    Kind.FINISH: st.sampled_from(["stop", "length"]),
    Kind.USAGE: st.just('{"total_tokens":3}'),
    Kind.ERROR: st.just('{"message":"no"}'),
    Kind.HANDOVER: st.just("{}"),
    Kind.BRANCH_END: st.just("completed"),
}


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    """Any records but the terminal one; times go anywhere."""
    kinds = draw(st.lists(st.sampled_from([*[Kind.TOKEN] * 12, *WORDS]), max_size=50))
    return [
        Record(
            seq=seq,
            time_ns=draw(st.integers(0, 2**64 - 1) | st.integers(10**18, 10**18 + 10**9)),
            kind=kind,
            choice=draw(st.sampled_from([0, 0, 0, 1, 300])),
            token_count=draw(st.sampled_from([0, 1, 1, 1, 7, 2**32 - 1])),
            text=draw(WORDS.get(kind, TEXT)),
            branch=draw(st.integers(0, BRANCHES - 1)),
        )
        for seq, kind in enumerate(kinds, 1)
    ]


class Cut(NamedTuple):
    """When and how much is packed."""

    appended: int
    max_records: int
    max_bytes: int


CUTS = st.lists(
    st.builds(Cut, st.integers(0, 20), st.integers(0, 12), st.integers(0, 120)), max_size=30
)


Ending = tuple[str, str | None]
"""Outcome and figures."""

FIGURES = Settlement(9, 40, partial=False, remaining_tokens=None).to_json()
ENDINGS: st.SearchStrategy[Ending | None] = st.sampled_from(
    [None, ("completed", None), ("length", FIGURES)]
)


def append(log: Any, record: Record) -> None:
    _, time_ns, kind, choice, token_count, text, branch = record
    log.append(kind, text, choice=choice, token_count=token_count, branch=branch, time_ns=time_ns)


def produce(
    log: _core.Log,
    written: list[Record],
    cuts: list[Cut],
    ending: Ending | None,
    *,
    elsewhere: bool = False,
) -> list[bytes]:
    """Write everything, packing in between, and return the batches in order.

    ``elsewhere``: somebody else packs from the start in between.
    """
    batches: list[bytes] = []
    after, waiting = 0, iter(written)

    def pack(cut: Cut) -> bool:
        nonlocal after
        if elsewhere:
            log.pack(0, max_records=1)
        packed = log.pack(after, max_records=cut.max_records, max_bytes=cut.max_bytes)
        if packed is None:
            assert after == log.tail or log.oldest > log.tail
            return False
        batch, first, last = packed
        assert first == max(after + 1, log.oldest)
        assert first == _core.Log.first_seq_of(batch)
        assert first <= last < first + max(1, cut.max_records)
        batches.append(batch)
        after = last
        return True

    for cut in cuts:
        for _ in range(cut.appended):
            if (record := next(waiting, None)) is not None:
                append(log, record)
        pack(cut)
    for record in waiting:
        append(log, record)
    if ending is not None:
        log.close(*ending, time_ns=5)
    while pack(Cut(0, 64, 1 << 16)):
        pass
    return batches


def frames(log: _core.Log, after: int) -> bytes:
    reader = _core.Reader(log, _core.Encoder(**OPTIONS, metadata=True), after=after)
    out = reader.take(1 << 30)
    assert reader.gap is None
    return out


def same_ends(mirror: _core.Log, log: _core.Log) -> None:
    """Everything that does not depend on where the mirror starts."""
    assert (mirror.tail, mirror.closed, mirror.outcome) == (log.tail, log.closed, log.outcome)
    assert mirror.settlement == log.settlement
    assert mirror.checks() == log.checks()
    for branch in range(BRANCHES):
        assert tally_of(mirror, branch) == tally_of(log, branch)
        assert mirror.finish_reason(300, branch) == log.finish_reason(300, branch)
    assert mirror.token_count == log.token_count


@settings(max_examples=120, deadline=None)
@given(
    written=records(),
    cuts=CUTS,
    ending=ENDINGS,
    integrity=st.booleans(),
    elsewhere=st.booleans(),
)
def test_a_mirror_from_the_start_is_the_log(
    written: list[Record], cuts: list[Cut], ending: Ending | None, integrity: bool, elsewhere: bool
) -> None:
    kept = {"integrity": STREAM_ID if integrity else None, "branches": BRANCHES}
    log, mirror = _core.Log(**kept), _core.Log(**kept)  # type: ignore[arg-type]
    for batch in produce(log, written, cuts, ending, elsewhere=elsewhere):
        mirror.unpack(batch)
        assert mirror.unpack(batch) == mirror.tail, "what is here already is skipped"
    same_ends(mirror, log)
    assert frames(mirror, 0) == frames(log, 0)
    assert (mirror.snapshot(), mirror.leaves()) == (log.snapshot(), log.leaves())
    assert mirror.error == log.error
    for branch in range(BRANCHES):
        assert mirror.inter_token_counts(branch) == log.inter_token_counts(branch)
    for seq in range(log.tail + 1):
        assert mirror.crc_at(seq) == log.crc_at(seq)


@settings(max_examples=150, deadline=None)
@given(
    written=records(),
    cuts=CUTS,
    ending=ENDINGS,
    data=st.data(),
    max_records=st.integers(1, 60),
    max_bytes=st.integers(12, 400),
    elsewhere=st.booleans(),
)
def test_a_mirror_that_starts_at_any_batch_knows_what_came_before(
    written: list[Record],
    cuts: list[Cut],
    ending: Ending | None,
    data: st.DataObject,
    max_records: int,
    max_bytes: int,
    elsewhere: bool,
) -> None:
    # A producer that drops what it has to, so that batches start in the middle of dropped leaves.
    log = _core.Log(
        integrity=STREAM_ID, branches=BRANCHES, max_records=max_records, max_bytes=max_bytes
    )
    batches = produce(log, written, cuts, ending, elsewhere=elsewhere)
    if not batches:
        return
    start = data.draw(st.integers(0, len(batches) - 1))
    mirror = _core.Log.mirror(batches[start], integrity=STREAM_ID, branches=BRANCHES)
    first = _core.Log.first_seq_of(batches[start])
    assert mirror.oldest == first
    for batch in batches[start + 1 :]:
        if _core.Log.first_seq_of(batch) > mirror.tail + 1:
            return  # the producer was overrun: no mirror can go on over that hole
        mirror.unpack(batch)
    if mirror.tail < log.tail:
        return  # its last record was too large to be kept
    same_ends(mirror, log)
    whole = twin.Log(integrity=STREAM_ID, branches=BRANCHES)
    for record in written:
        append(whole, record)
    for seq in range(first - 1, mirror.tail + 1):
        assert mirror.crc_at(seq) == whole.crc_at(min(seq, whole.tail))
    assert mirror.leaves() == [leaf for leaf in whole.full_leaves() if leaf[1] >= first]
    for branch, choice, omitted, text in mirror.snapshot():
        texts = [it[3] for it in whole.snapshot() if it[:2] == (branch, choice)]
        assert texts[0].encode()[omitted:].decode() == text
        before = [it for it in written[: first - 1] if it.kind == Kind.TOKEN]
        missing = [it.text for it in before if (it.branch, it.choice) == (branch, choice)]
        assert omitted == len("".join(missing).encode())
    assert len(mirror.snapshot()) == len(whole.snapshot())


@settings(max_examples=150, deadline=None)
@given(
    written=records().filter(bool),
    data=st.data(),
    damage=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    resealed=st.booleans(),
    integrity=st.booleans(),
)
def test_a_damaged_batch_is_refused_or_read_whole_and_never_half(
    written: list[Record],
    data: st.DataObject,
    damage: list[tuple[int, int]],
    resealed: bool,
    integrity: bool,
) -> None:
    kept = {"integrity": STREAM_ID if integrity else None, "branches": BRANCHES}
    log = _core.Log(**kept)  # type: ignore[arg-type]
    batches = produce(log, written, [Cut(3, 3, 60)] * 20, ("completed", FIGURES))
    at = data.draw(st.integers(0, len(batches) - 1))
    mirror = _core.Log(**kept)  # type: ignore[arg-type]
    for batch in batches[:at]:
        mirror.unpack(batch)
    damaged = bytearray(batches[at])
    for place, value in damage:
        damaged[place % len(damaged)] = value
    if resealed:
        damaged[-4:] = zlib.crc32(damaged[:-4]).to_bytes(4, "little")
    before = (mirror.tail, mirror.closed, mirror.checks(), mirror.snapshot())
    try:
        mirror.unpack(bytes(damaged))
    except ValueError:
        assert (mirror.tail, mirror.closed, mirror.checks(), mirror.snapshot()) == before
        assert mirror.unpack(batches[at]) > before[0]
    else:
        # Only a forger can seal other bytes; a whole batch of his is taken for what it says.
        assert resealed or bytes(damaged) == batches[at]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_refused(noise: bytes, resealed: bool) -> None:
    if resealed:
        noise = b"\x01" + noise
        noise += zlib.crc32(noise).to_bytes(4, "little")
    log = _core.Log(integrity=STREAM_ID, first_seq=1)
    try:
        log.unpack(noise)
    except ValueError:
        assert log.tail == 0
