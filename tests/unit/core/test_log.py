"""The log: bounds, what it knows of its stream, its endings."""

from __future__ import annotations

import pytest

from millstream import _core
from millstream.types import Kind


def write(log: _core.Log, *texts: str, time_ns: int = 1) -> None:
    for text in texts:
        log.append(Kind.TOKEN, text, token_count=1, time_ns=time_ns)


def test_seqs_start_at_one_and_have_no_gaps() -> None:
    log = _core.Log()
    assert (log.tail, log.oldest, log.closed) == (0, 1, False)
    seqs = [log.append(Kind.TOKEN, "x", time_ns=1) for _ in range(3)]
    assert seqs == [1, 2, 3]
    assert log.close("completed", time_ns=1)
    assert (log.tail, log.oldest, log.closed) == (4, 1, True)


def test_the_stream_has_one_outcome() -> None:
    log = _core.Log()
    assert log.close("cancelled", time_ns=1)
    assert not log.close("completed", time_ns=2)
    assert (log.outcome, log.tail) == ("cancelled", 1)
    with pytest.raises(ValueError, match="closed"):
        log.append(Kind.TOKEN, "late", time_ns=3)


def test_the_terminal_record_cannot_be_appended() -> None:
    log = _core.Log()
    with pytest.raises(ValueError, match="close"):
        log.append(Kind.END, "completed", time_ns=1)
    with pytest.raises(ValueError, match="8 is no kind"):
        log.append(8, "", time_ns=1)
    assert log.tail == 0


@pytest.mark.parametrize(
    ("max_bytes", "max_records", "named"),
    [(0, 1, "max_bytes"), (1, 0, "max_records"), (1 << 31, 1, "max_bytes")],
)
def test_impossible_bounds_are_refused(max_bytes: int, max_records: int, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        _core.Log(max_bytes=max_bytes, max_records=max_records)


def test_the_oldest_records_give_way() -> None:
    log = _core.Log(max_records=3)
    write(log, *"abcde")
    assert (log.oldest, log.tail) == (3, 5)


def test_dropped_records_leave_their_text() -> None:
    log = _core.Log(max_records=2, max_bytes=6)
    write(log, *"abcd")
    assert (log.oldest, log.bytes, log.text()) == (3, 4, "abcd")
    write(log, "éf")
    assert (log.oldest, log.bytes, log.snapshot()) == (4, 6, [(0, 0, 1, "bcdéf")])
    with pytest.raises(ValueError, match="first 1 bytes"):
        log.text()
    assert log.text(choice=1) == ""


def test_text_is_cut_between_characters() -> None:
    log = _core.Log(max_records=1, max_bytes=7)
    write(log, "漢字", "ab")
    assert log.snapshot() == [(0, 0, 3, "字ab")]


def test_the_longest_text_is_cut_first() -> None:
    log = _core.Log(max_records=1, max_bytes=8)
    for choice, text in [(0, "abc"), (1, "vwxyz"), (0, "12")]:
        log.append(Kind.TOKEN, text, choice=choice, time_ns=1)
    assert log.snapshot() == [(0, 0, 0, "abc12"), (0, 1, 2, "xyz")]


def test_only_text_is_left_of_dropped_records() -> None:
    log = _core.Log(max_records=1)
    log.append(Kind.FINISH, "length", time_ns=1)
    log.append(Kind.USAGE, "{}", time_ns=1)
    write(log, "")
    assert (log.snapshot(), log.bytes) == ([], 0)


def test_the_terminal_record_fits_into_the_smallest_log() -> None:
    log = _core.Log(max_bytes=1, max_records=1)
    write(log, "a")
    log.close("timeout_first_token", time_ns=2)
    assert (log.oldest, log.tail, log.outcome) == (2, 2, "timeout_first_token")


def test_text_is_that_of_one_choice() -> None:
    log = _core.Log()
    for choice, text in [(0, "a"), (1, "x"), (0, "ü"), (1, "y")]:
        log.append(Kind.TOKEN, text, choice=choice, time_ns=1)
    log.append(Kind.FINISH, "stop", choice=1, time_ns=1)
    log.append(Kind.FINISH, "length", choice=0, time_ns=1)
    assert [log.text(choice) for choice in range(3)] == ["aü", "xy", ""]
    assert [log.finish_reason(choice) for choice in range(3)] == ["length", "stop", None]


def test_the_engines_last_word_outlives_its_record() -> None:
    log = _core.Log(max_records=1)
    assert (log.usage, log.error, log.outcome) == (None, None, None)
    log.append(Kind.USAGE, '{"total_tokens":3}', time_ns=1)
    log.append(Kind.ERROR, '{"message":"no"}', time_ns=1)
    write(log, "x")
    assert (log.usage, log.error) == ('{"total_tokens":3}', '{"message":"no"}')


def test_tokens_and_their_times_are_counted() -> None:
    log = _core.Log()
    assert (log.token_count, log.first_token_ns, log.last_token_ns) == (0, None, None)
    log.append(Kind.TOKEN, "a", token_count=2, time_ns=1_000_000_000)
    log.append(Kind.TOKEN, "b", token_count=3, time_ns=1_090_000_000)
    log.append(Kind.USAGE, "{}", token_count=9, time_ns=9_000_000_000)
    assert (log.token_count, log.first_token_ns, log.last_token_ns) == (
        5,
        1_000_000_000,
        1_090_000_000,
    )


def test_merged_tokens_share_the_time_of_their_record() -> None:  # vllm#27485
    log = _core.Log()
    log.append(Kind.TOKEN, "a", token_count=1, time_ns=0)
    log.append(Kind.TOKEN, "bcd", token_count=3, time_ns=90_000_000)
    log.append(Kind.TOKEN, "e", token_count=1, time_ns=90_000_000 + 20_000_000_000)
    bounds = _core.INTER_TOKEN_BOUNDS_NS
    counts = dict(zip((*bounds, None), log.inter_token_counts(), strict=True))
    assert {bound: count for bound, count in counts.items() if count} == {50_000_000: 3, None: 1}
    assert log.inter_token_sum_ns == 20_090_000_000
    assert list(bounds) == sorted(set(bounds))


def test_an_idle_log_is_small_and_a_full_one_bounded() -> None:
    log = _core.Log(max_bytes=4096, max_records=256)
    assert log.memory_bytes < 700
    for _ in range(20):
        write(log, *["word "] * 500)
    # Twice the text, 24 bytes a record, and the fixed part.
    assert log.memory_bytes < 8192 + 256 * 24 + 800
