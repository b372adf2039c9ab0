"""Pure-Python twin of the detokenizer: stop strings by their definition, one search per token."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence


class Detokenizer:
    """Ids to text; never shows a part of a stop string, nor anything that could become one."""

    def __init__(
        self, tokens: Sequence[bytes], skip: Collection[int] = (), stop: Sequence[str] = ()
    ) -> None:
        self.tokens = tokens
        self.skip = skip
        self.stop = stop
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        if not 0 <= token < len(self.tokens):
            raise ValueError(token)
        return self._show(b"" if token in self.skip else self.tokens[token], final=False)

    def finish(self) -> str:
        return self._show(b"", final=True)

    def _show(self, data: bytes, *, final: bool) -> str:
        self.held += self._decoded(data, final=final)
        if self.stopped:
            return ""
        matches = [
            (start + len(stop), start) for stop in self.stop if (start := self.held.find(stop)) >= 0
        ]
        if matches:
            self.stopped = True
            return self.held[: min(matches)[1]]
        keep = 0 if final else self._live()
        shown, self.held = self.held[: len(self.held) - keep], self.held[len(self.held) - keep :]
        return shown

    def _decoded(self, data: bytes, *, final: bool) -> str:
        text = self.decoder.decode(data, final)
        pending = self.decoder.getstate()[0]
        if pending[:1] == b"\xed" and pending[1:] >= b"\xa0":
            # CPython waits for the rest of a surrogate, which nothing can make whole.
            text += self.decoder.decode(b"", True)
        return text

    def _live(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        longest = max((len(stop) for stop in self.stop), default=0)
        for length in range(min(longest, len(self.held)), 0, -1):
            if any(stop.startswith(self.held[-length:]) for stop in self.stop):
                return length
        return 0
