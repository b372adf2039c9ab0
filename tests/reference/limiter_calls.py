"""Plays the calls of traces on `_core.Limiter` or on its twin, which share their methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, fields
from typing import Any

from millstream import _core
from tests.reference.limiter_key import Quota
from tests.reference.limiter_traces import Answer, Arguments, Call, Left, Refused


def core_quota(quota: Quota) -> _core.Quota:
    """The same quota for the Rust limiter, where half a dimension is an error."""
    values = dict(zip((field.name for field in fields(quota)), astuple(quota), strict=True))
    if quota.rate is None:
        values["burst"] = None
    if quota.tokens is None:
        values["window_ns"] = None
    return _core.Quota(**values)


class Performer:
    """Makes the calls of one trace on ``limiter``; keeps the leases by their names."""

    def __init__(self, limiter: Any, quota: Callable[[Quota], Any] = core_quota) -> None:
        self._limiter = limiter
        self._quota = quota
        self._leases: dict[str, Any] = {}

    def __call__(self, call: Call) -> Answer:
        try:
            return self._answer(call)
        except ValueError:
            return ValueError

    def _answer(self, call: Call) -> Answer:
        arguments = call.arguments
        match call.operation:
            case "reserve" | "take":
                return self._take(call)
            case "peek":
                snapshot = self._limiter.peek(self._scopes(call), call.now_ns)
                meters = (getattr(snapshot, dimension) for dimension in Left._fields)
                return Left(*(meter and meter.remaining for meter in meters))
        lease = self._leases[arguments["lease"]]
        amount = [arguments[name] for name in ("actual", "emitted") if name in arguments]
        ended = getattr(self._limiter, call.operation)(lease, *amount, call.now_ns)
        return bool(ended)

    def _take(self, call: Call) -> Answer:
        decide = getattr(self._limiter, call.operation)
        found = decide(self._scopes(call), call.now_ns, **_cost(call.arguments))
        if not found:
            return Refused(found.dimension, found.scope, found.permanent, found.wait_ns)
        if "lease" in call.arguments:
            self._leases[call.arguments["lease"]] = found
        return True

    def _scopes(self, call: Call) -> Any:
        return self._limiter.scopes([(key, self._quota(quota)) for key, quota in call.scopes])


def _cost(arguments: Arguments) -> dict[str, Any]:
    names = ("tokens", "requests", "prompt", "kibibytes")
    return {name: arguments[name] for name in names if name in arguments}  # type: ignore[literal-required]
