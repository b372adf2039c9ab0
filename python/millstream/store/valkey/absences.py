"""Who has been missing for so long, in the sight of a server that never failed, that it is gone."""

from __future__ import annotations

from typing import NamedTuple


class _Missing(NamedTuple):
    since_ns: int
    failures: int


class Absences:
    """Tells an owner that is dead from one that is only not to be seen.

    A server that was away may come back without the owner's heartbeat, which the owner will renew
    as soon as it hears of it. So any failure in between starts the time anew.
    """

    def __init__(self, patience_ns: int) -> None:
        self._patience_ns = patience_ns
        self._missing: dict[str, _Missing] = {}

    def gone(self, name: str, present: bool, *, now_ns: int, failures: int) -> bool:
        """Note a look at ``name``; True once it has been missing for the whole patience.

        ``failures`` is the number of times that the server has not answered until now.
        """
        if present:
            self._missing.pop(name, None)
            return False
        missing = self._missing.get(name)
        if missing is None or missing.failures != failures:
            self._missing[name] = _Missing(now_ns, failures)
            return False
        return now_ns - missing.since_ns >= self._patience_ns

    def keep(self, names: set[str]) -> None:
        """Forget all others."""
        for name in self._missing.keys() - names:
            del self._missing[name]
