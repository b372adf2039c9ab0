"""The limiter in plain Python: one dictionary of keys, no shards, no locks.

It answers as ``millstream._core.Limiter(shards=1)`` does. Where the Rust side is clever this side
is plain: a window is a dictionary from slot to tokens, idle keys are all forgotten before every
decision, expired leases are found by looking at every lease.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from tests.reference.limiter_key import Dimension, Hold, Key, Meter, Quota, Timeline

MAX_COST = 1 << 40


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was taken."""

    scope: str
    dimension: Dimension
    wait_ns: int
    permanent: bool

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tightest scope of each dimension."""

    requests: Meter | None
    tokens: Meter | None
    concurrency: Meter | None
    bytes: Meter | None


@dataclass(slots=True, eq=False)
class Lease:
    """A reservation."""

    tokens: int
    requests: int
    prompt: int
    kibibytes: int
    expires_at: int
    holds: list[Hold] = field(default_factory=list)


Scopes = Sequence[tuple[str, Quota]]


class Limiter:
    """Several keys checked together, all or nothing."""

    def __init__(self, *, max_keys: int = 100_000, lease_ttl_ns: int = 900_000_000_000) -> None:
        self._max_keys = max_keys
        self._lease_ttl_ns = lease_ttl_ns
        self._keys: dict[str, Key] = {}
        self._overflow: dict[Quota, Key] = {}
        self._leases: dict[Lease, None] = {}
        self._time = Timeline(0, 0)

    @property
    def keys(self) -> int:
        return len(self._keys)

    @property
    def holds(self) -> int:
        return sum(len(lease.holds) for lease in self._leases)

    def scopes(self, scopes: Iterable[tuple[str, Quota]]) -> Scopes:
        return list(scopes)

    def reserve(
        self,
        scopes: Scopes,
        now_ns: int,
        tokens: int = 0,
        requests: int = 1,
        prompt: int = 0,
        kibibytes: int = 0,
    ) -> Lease | Refusal:
        if not 0 <= prompt <= tokens:
            raise ValueError(f"a prompt lies within the cost of {tokens} tokens, not at {prompt}")
        keys = self._admit(scopes, now_ns, tokens, requests, kibibytes)
        if isinstance(keys, Refusal):
            return keys
        expires_at = self._time.now + self._lease_ttl_ns
        lease = Lease(tokens, requests, prompt, kibibytes, expires_at)
        for key in keys:
            key.take(requests, tokens)
            key.open += 1
            key.kibibytes += kibibytes
            lease.holds.append(key.hold())
        self._leases[lease] = None
        return lease

    def take(
        self, scopes: Scopes, now_ns: int, tokens: int = 0, requests: int = 1
    ) -> Literal[True] | Refusal:
        keys = self._admit(scopes, now_ns, tokens, requests, None)
        if isinstance(keys, Refusal):
            return keys
        for key in keys:
            key.take(requests, tokens)
        return True

    def undo(self, lease: Lease, now_ns: int) -> bool:
        if not self._end(lease, 0, now_ns):
            return False
        for hold in lease.holds:
            hold.key.give_back(hold, lease.requests)
        return True

    def settle(self, lease: Lease, actual: int, now_ns: int) -> bool:
        _check(actual)
        return self._end(lease, actual, now_ns)

    def cancel(self, lease: Lease, emitted: int, now_ns: int) -> bool:
        _check(emitted)
        return self._end(lease, lease.prompt + emitted, now_ns)

    def renew(self, lease: Lease, now_ns: int) -> bool:
        self._expire(now_ns)
        if lease not in self._leases:
            return False
        lease.expires_at = self._time.now + self._lease_ttl_ns
        return True

    def peek(self, scopes: Scopes, now_ns: int) -> Snapshot:
        self._expire(now_ns)
        meters: dict[Dimension, list[Meter]] = {dimension: [] for dimension in get_args(Dimension)}
        for name, quota in scopes:
            key = self._keys.get(name) or self._new(name, quota, now_ns)
            key.advance(now_ns)
            key.adopt(quota)
            for dimension, meter in key.meters(now_ns):
                meters[dimension].append(meter)
        tightest = {
            dimension: min(
                found, key=lambda meter: (meter.remaining, -meter.reset_ns), default=None
            )
            for dimension, found in meters.items()
        }
        return Snapshot(**tightest)

    def _admit(
        self, scopes: Scopes, now_ns: int, tokens: int, requests: int, kibibytes: int | None
    ) -> list[Key] | Refusal:
        """The keys to take from; ``kibibytes`` is None where no lease is asked for."""
        for cost in (requests, tokens, kibibytes or 0):
            _check(cost)
        if not (requests or tokens or kibibytes):
            raise ValueError("nothing to reserve")
        self._expire(now_ns)
        self._forget_idle(now_ns)
        keys = {name: self._resolve(name, quota, now_ns) for name, quota in scopes}
        refusals = [
            (permanent, dimension in ("concurrency", "bytes"), wait, name, dimension)
            for name, key in keys.items()
            for permanent, dimension, wait in key.refusals(requests, tokens, kibibytes, now_ns)
        ]
        if refusals:
            permanent, _, _, name, dimension = max(refusals, key=lambda refusal: refusal[:3])
            wait = 0 if permanent else max(refusal[2] for refusal in refusals)
            return Refusal(name, dimension, wait, permanent)
        return list(dict.fromkeys(keys.values()))

    def _resolve(self, name: str, quota: Quota, now_ns: int) -> Key:
        key = self._keys.get(name)
        if key is None and len(self._keys) >= self._max_keys:
            key = self._overflow.setdefault(quota, Key(name, quota, now_ns))
        elif key is None:
            key = self._keys[name] = self._new(name, quota, now_ns)
        key.advance(now_ns)
        key.adopt(quota)
        return key

    def _new(self, name: str, quota: Quota, now_ns: int) -> Key:
        overflow = self._overflow.get(quota)
        return Key(name, quota, now_ns) if overflow is None else overflow.heir(name)

    def _forget_idle(self, now_ns: int) -> None:
        for key in (*self._keys.values(), *self._overflow.values()):
            key.advance(now_ns)
        self._keys = {name: key for name, key in self._keys.items() if not key.idle}
        self._overflow = {quota: key for quota, key in self._overflow.items() if not key.idle}

    def _expire(self, now_ns: int) -> None:
        self._time.observe(now_ns, self._lease_ttl_ns)
        for lease in [lease for lease in self._leases if lease.expires_at <= self._time.now]:
            self._close(lease)

    def _end(self, lease: Lease, actual: int, now_ns: int) -> bool:
        self._expire(now_ns)
        if lease not in self._leases:
            return False
        self._close(lease)
        for hold in lease.holds:
            hold.key.advance(now_ns)
            hold.key.correct(hold, lease.tokens, actual)
        return True

    def _close(self, lease: Lease) -> None:
        del self._leases[lease]
        for hold in lease.holds:
            hold.key.open -= 1
            hold.key.kibibytes -= lease.kibibytes


def _check(cost: int) -> None:
    if not 0 <= cost <= MAX_COST:
        raise ValueError(f"a cost must lie in 0..={MAX_COST}, not {cost}")
