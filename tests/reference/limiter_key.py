"""One key of the limiter's twin: its quota, its time, its bucket and its window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

Dimension = Literal["requests", "tokens", "concurrency", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What one key may use; see the stub of ``_core.Quota``."""

    rate: int | None = None
    period_ns: int = 1_000_000_000
    burst: int = 0
    tokens: int | None = None
    window_ns: int = 0
    slots: int = 16
    concurrency: int | None = None
    kibibytes: int | None = None

    @property
    def slot_ns(self) -> int:
        return -(-self.window_ns // self.slots)

    @property
    def ring(self) -> tuple[int, int] | None:
        """What two quotas must share for a window to go on; None without a window."""
        return None if self.tokens is None else (self.slots, self.slot_ns)

    @property
    def requests(self) -> tuple[int, int, int] | None:
        """What two quotas must share for a request of one to be given back under the other."""
        return None if self.rate is None else (self.rate, self.period_ns, self.burst)

    @property
    def memory_ns(self) -> int:
        """How far ahead a saved time may lie before it counts as now."""
        return max(
            self.period_ns if self.rate is not None else 0,
            self.window_ns if self.tokens is not None else 0,
        )


@dataclass(frozen=True, slots=True)
class Meter:
    """The state of one dimension of one key."""

    scope: str
    limit: int
    remaining: int
    reset_ns: int


@dataclass(slots=True)
class Timeline:
    """A clock made monotone: steps back pass no time, and no time passes twice."""

    now: int
    seen: int

    def observe(self, reading: int, memory_ns: int) -> int:
        if reading < self.seen:
            if self.seen - reading > memory_ns:
                self.seen = reading
            return 0
        returns = self.seen < self.now <= reading
        elapsed = reading - (self.now if returns else self.seen)
        self.seen = reading
        self.now += elapsed
        return elapsed

    def wait(self, reading: int, delay: int) -> int:
        returns = self.seen < self.now <= self.seen + delay
        return (self.now if returns else self.seen) + delay - reading


class Key:
    """The state of one key."""

    def __init__(self, name: str, quota: Quota, reading: int) -> None:
        self.name = name
        self.quota = quota
        self.time = Timeline(reading, reading)
        self.level = quota.burst * quota.period_ns
        self.used: dict[int, int] = {}
        self.open = 0
        self.kibibytes = 0
        self.epoch = 0
        self.rates = 0

    def heir(self, name: str) -> Key:
        """Another key that has used as much, and holds nothing."""
        heir = Key(name, self.quota, 0)
        heir.time = replace(self.time)
        heir.level, heir.used = self.level, dict(self.used)
        return heir

    @property
    def slot(self) -> int:
        return self.time.now // self.quota.slot_ns if self.quota.tokens is not None else 0

    @property
    def full(self) -> bool:
        return not self.quota.rate or self.level == self.quota.burst * self.quota.period_ns

    @property
    def idle(self) -> bool:
        return self.full and not self.open and not any(self.used.values())

    def advance(self, reading: int) -> None:
        elapsed = self.time.observe(reading, self.quota.memory_ns)
        if self.quota.rate is not None:
            capacity = self.quota.burst * self.quota.period_ns
            self.level = min(capacity, self.level + elapsed * self.quota.rate)
        if self.used:
            oldest = self.slot - self.quota.slots
            self.used = {slot: tokens for slot, tokens in self.used.items() if slot >= oldest}

    def adopt(self, quota: Quota) -> None:
        old, self.quota = self.quota, quota
        if old == quota:
            return
        self.rates += old.requests != quota.requests
        if quota.rate is not None:
            capacity = quota.burst * quota.period_ns
            full = not old.rate or self.level == old.burst * old.period_ns
            kept = self.level * quota.period_ns // old.period_ns
            self.level = capacity if full else min(capacity, kept)
        if old.ring != quota.ring:
            used = sum(self.used.values())
            self.used = {self.slot: used} if quota.tokens is not None else {}
            self.epoch += 1

    def refusals(
        self, requests: int, tokens: int, kibibytes: int | None, reading: int
    ) -> Iterator[tuple[bool, Dimension, int]]:
        quota = self.quota
        if quota.rate is not None:
            missing = requests * quota.period_ns - self.level
            if quota.rate == 0 or requests > quota.burst:
                yield True, "requests", 0
            elif missing > 0:
                yield False, "requests", self.time.wait(reading, -(-missing // quota.rate))
        if quota.tokens is not None:
            if tokens > quota.tokens:
                yield True, "tokens", 0
            elif sum(self.used.values()) + tokens > quota.tokens:
                yield False, "tokens", self.time.wait(reading, self.until(tokens, quota.tokens))
        if kibibytes is not None:
            yield from self.refusals_of_leases(kibibytes)

    def refusals_of_leases(self, kibibytes: int) -> Iterator[tuple[bool, Dimension, int]]:
        limit, memory = self.quota.concurrency, self.quota.kibibytes
        if limit is not None and self.open >= limit:
            yield limit == 0, "concurrency", 0
        if memory is not None and kibibytes > max(0, memory - self.kibibytes):
            yield kibibytes > memory, "bytes", 0

    def until(self, tokens: int, limit: int) -> int:
        """Time until ``tokens`` fit, by dropping one slot after the other."""
        left = sum(self.used.values())
        for slot in sorted(self.used):
            left -= self.used[slot]
            if left + tokens <= limit:
                return self.leaves(slot)
        raise AssertionError("a cost within the limit fits an empty window")

    def leaves(self, slot: int) -> int:
        return (slot + self.quota.slots + 1) * self.quota.slot_ns - self.time.now

    def take(self, requests: int, tokens: int) -> None:
        if self.quota.rate is not None:
            self.level -= requests * self.quota.period_ns
        self.charge(tokens)

    def charge(self, tokens: int) -> None:
        if self.quota.tokens is not None and tokens:
            self.used[self.slot] = self.used.get(self.slot, 0) + tokens

    def correct(self, hold: Hold, reserved: int, actual: int) -> None:
        if actual > reserved:
            self.charge(actual - reserved)
        elif hold.epoch == self.epoch and hold.slot in self.used:
            self.used[hold.slot] = max(0, self.used[hold.slot] - (reserved - actual))

    def give_back(self, hold: Hold, requests: int) -> None:
        if self.quota.rate is not None and hold.rates == self.rates:
            refilled = (self.time.now - hold.at) * self.quota.rate
            self.level += max(0, requests * self.quota.period_ns - refilled)

    def hold(self) -> Hold:
        return Hold(self, self.epoch, self.rates, self.slot, self.time.now)

    def meters(self, reading: int) -> Iterator[tuple[Dimension, Meter]]:
        quota = self.quota
        if quota.rate is not None:
            missing = quota.burst * quota.period_ns - self.level
            reset = -(-missing // quota.rate) if quota.rate and missing else 0
            remaining = self.level // quota.period_ns if quota.rate else 0
            yield "requests", self.meter(quota.burst, remaining, reset, reading)
        if quota.tokens is not None:
            left = max(0, quota.tokens - sum(self.used.values()))
            reset = max((self.leaves(slot) for slot, used in self.used.items() if used), default=0)
            yield "tokens", self.meter(quota.tokens, left, reset, reading)
        if quota.concurrency is not None:
            left = max(0, quota.concurrency - self.open)
            yield "concurrency", self.meter(quota.concurrency, left, 0, reading)
        if quota.kibibytes is not None:
            left = max(0, quota.kibibytes - self.kibibytes)
            yield "bytes", self.meter(quota.kibibytes, left, 0, reading)

    def meter(self, limit: int, remaining: int, reset: int, reading: int) -> Meter:
        wait = self.time.wait(reading, reset) if reset else 0
        return Meter(self.name, limit, remaining, wait)


@dataclass(slots=True)
class Hold:
    """A lease's part in one key."""

    key: Key
    epoch: int
    rates: int
    slot: int
    at: int
