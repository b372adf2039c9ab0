"""The own file, or the document that instances share."""

from __future__ import annotations

import pytest

from millstream.assembly.reload.precedence import LATE_NS, Precedence
from millstream.config import Document

NOW = 10 * LATE_NS


def of(written_ns: int, text: str = "") -> Document:
    return Document(written_ns, text or f"of {written_ns}", "")


def started(file_ns: int | None = 100) -> Precedence:
    return Precedence(None if file_ns is None else of(file_ns), NOW)


def take(precedence: Precedence, document: Document, *, told: bool) -> bool:
    taken = precedence.handle(document, told=told)
    if taken:
        precedence.document_holds(document)
    return taken


@pytest.mark.parametrize(
    ("file_ns", "document_ns", "holds"),
    [(100, 101, True), (100, 100, False), (100, 99, False), (None, 1, True)],
)
def test_at_the_start_the_newer_one_holds(
    file_ns: int | None, document_ns: int, holds: bool
) -> None:
    assert started(file_ns).handle(of(document_ns), told=False) == holds


def test_a_file_from_the_future_is_from_now() -> None:
    assert started(NOW + 1000).handle(of(NOW + 1), told=False)


def test_what_there_is_news_of_holds_though_its_clock_is_behind() -> None:
    assert started().handle(of(5), told=True)


def test_the_same_is_taken_once() -> None:
    precedence = started()
    assert take(precedence, of(200), told=True)
    assert not precedence.handle(of(200), told=True)
    assert not precedence.handle(of(200), told=False)


def test_after_a_lost_connection_what_was_written_over_the_last_one_holds() -> None:
    # The file has changed since, and the one who pushes has a clock that is behind.
    precedence = started()
    assert take(precedence, of(200), told=True)
    precedence.file_holds(NOW)
    assert precedence.handle(of(201), told=False)


def test_a_server_that_comes_back_with_an_older_one_changes_nothing() -> None:
    precedence = started()
    assert take(precedence, of(200), told=True)
    assert take(precedence, of(300), told=True)
    assert not precedence.handle(of(200), told=False)


def test_an_older_one_that_was_not_taken_is_not_taken_with_the_next_connection() -> None:
    precedence = started()
    assert not precedence.handle(of(50), told=False)
    assert not precedence.handle(of(50), told=False)


def test_one_that_could_not_be_taken_does_not_change_which_is_the_newer() -> None:
    precedence = started()
    assert precedence.handle(of(200, "broken"), told=True)
    assert precedence.handle(of(201), told=False)


def test_a_change_of_the_file_is_newer_than_all_before_it() -> None:
    precedence = started()
    take(precedence, of(NOW + 5), told=True)
    assert precedence.file_holds(NOW) == NOW + 6


def test_a_late_notice_of_a_file_is_told_from_an_old_file_that_is_put_there() -> None:
    precedence = started()
    assert not precedence.superseded(of(NOW - 5))
    take(precedence, of(NOW), told=True)
    assert precedence.superseded(of(NOW - 5))
    assert not precedence.superseded(of(NOW + 5))
    assert not precedence.superseded(of(NOW - LATE_NS))
    precedence.file_holds(NOW + 10)
    assert not precedence.superseded(of(NOW + 5))
