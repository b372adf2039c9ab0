"""Which holds where an instance's file and the document of all instances differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.config import Document

LATE_NS = 2_000_000_000
"""How late a change of the file may be noticed."""


class Precedence:
    """At the start the newer of the two holds, and after that each change as it comes.

    Times are in unix nanoseconds, by the clocks of whoever wrote.
    """

    def __init__(self, file: Document | None, now_ns: int) -> None:
        # A file from the future would win over whatever comes before its day.
        self._held_ns = 0 if file is None else min(file.written_ns, now_ns)
        self._read_ns: int | None = None
        self._handled: Document | None = None

    def file_holds(self, now_ns: int) -> int:
        """The file has just been taken; returns its time: it is newer than all before it."""
        self._held_ns = max(now_ns, self._held_ns + 1)
        return self._held_ns

    def document_holds(self, document: Document) -> None:
        """The document that is handled has been taken."""
        self._held_ns = document.written_ns

    def handle(self, document: Document, *, told: bool) -> bool:
        """Whether the document that has been read there is to be taken.

        ``told`` if there was news of it. Without, the connection is new, and somebody may have
        written meanwhile: each does so with a later time than what was there, whatever its clock
        says, and what is older has come back with a server that lost the newer one.
        """
        least_ns = self._held_ns if self._read_ns is None else min(self._held_ns, self._read_ns)
        self._read_ns = document.written_ns
        if document == self._handled or not (told or document.written_ns > least_ns):
            return False
        self._handled = document
        return True

    def superseded(self, file: Document) -> bool:
        """Whether a document came just after this change of the file, which was noticed later.

        Each worker of a file notices by itself, and none may bring back what another instance has
        replaced in between. A file that is much older has been put there now.
        """
        return (
            self._handled is not None
            and self._handled.written_ns == self._held_ns
            and 0 < self._held_ns - file.written_ns < LATE_NS
        )
