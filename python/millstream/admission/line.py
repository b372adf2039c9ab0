"""The order of those who wait: first come, first served for each tenant and model."""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from millstream.admission.waiter import Key, Waiter

_SLACK = 64
"""Deadlines of those who have gone that are kept at most, beside as many as wait."""


class Line:
    """Everybody who waits; to come, to go and to be first cost the same however many they are."""

    def __init__(self) -> None:
        self._waiters: set[Waiter] = set()
        # Not a dict: after many have gone from its front, its first one is found slowly.
        self._keys: dict[Key, OrderedDict[Waiter, None]] = {}
        self._refused: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self._deadlines: list[tuple[int, int, Waiter]] = []

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, waiter: Waiter) -> bool:
        return waiter in self._waiters

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._waiters)

    def refused_by(self, scope: str) -> int:
        """How many wait because this scope refused them last."""
        return self._refused[scope]

    def held(self, scope: str) -> int:
        """How many hold this scope."""
        return self._held[scope]

    def join(self, waiter: Waiter) -> None:
        """Stand at the end of all its keys."""
        self._waiters.add(waiter)
        for key in waiter.keys:
            self._keys.setdefault(key, OrderedDict())[waiter] = None
        self._note(waiter)

    def stand(self, waiter: Waiter, key: Key) -> None:
        """Stand at another key too, before those who came later: so whoever came first of all is
        first at each of his keys, and no two wait for each other.
        """
        waiter.keys = (*waiter.keys, key)
        here = {*self._keys.get(key, ()), waiter}
        in_order = sorted(here, key=lambda one: one.arrival)
        self._keys[key] = OrderedDict.fromkeys(in_order)

    def moved(self, waiter: Waiter, origin: str, holds: Iterable[str]) -> None:
        """It waits for another scope than ``origin`` now, or until another time; ``holds`` are
        those that it held before.
        """
        self._forget(origin, holds)
        self._note(waiter)

    def _note(self, waiter: Waiter) -> None:
        """Count it at its scopes, until its deadline."""
        self._refused[waiter.refusal.scope] += 1
        self._held.update(waiter.holds)
        if len(self._deadlines) > 2 * len(self._waiters) + _SLACK:
            self._deadlines = [entry for entry in self._deadlines if self._valid(*entry)]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (waiter.deadline_ns, waiter.arrival, waiter))

    def leave(self, waiter: Waiter) -> bool:
        """It waits no more; False if it had gone before."""
        if waiter not in self._waiters:
            return False
        self._waiters.discard(waiter)
        for key in waiter.keys:
            here = self._keys[key]
            del here[waiter]
            if not here:
                del self._keys[key]
        self._forget(waiter.refusal.scope, waiter.holds)
        return True

    def last_of(self, keys: Iterable[Key]) -> Waiter | None:
        """Somebody after whom a newcomer with these keys has to stand, if there is one."""
        for key in keys:
            if key in self._keys:
                return next(reversed(self._keys[key]))
        return None

    def heads(self, keys: Iterable[Key] | None = None) -> Iterator[Waiter]:
        """Those of these keys, or of all, before whom nobody stands with one of their keys."""
        for key in tuple(self._keys) if keys is None else keys:
            if key in self._keys:
                first = next(iter(self._keys[key]))
                # One with several keys comes once, with its first one.
                if first.keys[0] == key and self._is_head(first):
                    yield first

    def followers(self, keys: Sequence[Key]) -> Iterator[Waiter]:
        """Heads that may be new since somebody with these keys has gone."""
        seen = set()
        for key in keys:
            if key in self._keys:
                first = next(iter(self._keys[key]))
                if first not in seen and self._is_head(first):
                    seen.add(first)
                    yield first

    def expired(self, now_ns: int) -> Iterator[Waiter]:
        """Those whose deadline has come."""
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            entry = heapq.heappop(self._deadlines)
            if self._valid(*entry):
                yield entry[2]

    @property
    def next_deadline_ns(self) -> int | None:
        """When the next one's patience ends."""
        while self._deadlines and not self._valid(*self._deadlines[0]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _valid(self, deadline_ns: int, _arrival: int, waiter: Waiter) -> bool:
        return waiter in self._waiters and waiter.deadline_ns == deadline_ns

    def _is_head(self, waiter: Waiter) -> bool:
        return all(next(iter(self._keys[key])) is waiter for key in waiter.keys)

    def _forget(self, scope: str, holds: Iterable[str]) -> None:
        _subtract(self._refused, scope)
        for held in holds:
            _subtract(self._held, held)


def _subtract(counted: Counter[str], scope: str) -> None:
    counted[scope] -= 1
    if not counted[scope]:
        del counted[scope]
