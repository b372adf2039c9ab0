"""The limiter's script on a real server, one call after the other, at any time one likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millstream.admission.base import Cost, ScopedLimits
from millstream.admission.meters import DIMENSIONS, Readings
from millstream.admission.valkey.calls import Calls, Charges
from millstream.admission.valkey.meters import snapshot_of
from millstream.admission.valkey.quotas import ScopeBook, Scopes
from millstream.admission.valkey.script import Call, Command, answers_of, commands_of
from tests.integration.valkey_server import ValkeyServer


@dataclass(frozen=True, slots=True)
class Taken:
    """A lease."""

    name: str
    scopes: Scopes
    cost: Cost
    charges: Charges
    snapshot: Readings


@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing was taken; the wait is in units of 500 ns."""

    scope: str
    dimension: str
    wait: int
    permanent: bool
    snapshot: Readings


class ScriptLimiter:
    """``now`` is the time of the script in units of 500 ns."""

    def __init__(
        self, server: ValkeyServer, *, now: int, lease_ns: int, namespace: str = "default"
    ) -> None:
        self.now = now
        self._pool = server.client.connection_pool
        self._connection = self._pool.get_connection("EVALSHA")
        self._book = ScopeBook(namespace)
        self._calls = Calls(self._book, lease_ns=lease_ns, reading=lambda: self.now)
        self._leases = 0

    def close(self) -> None:
        self._pool.release(self._connection)

    def reserve(
        self, members: Sequence[ScopedLimits], cost: Cost, *, name: str = "", again: bool = False
    ) -> Taken | Refused:
        scopes = self._book.prepared(tuple(members))
        name = name or self._name(cost)
        answer = self._run(self._calls.reserve(scopes, name, cost, again=again))
        return _decision(answer, name, scopes, cost)

    def reserve_together(
        self, members: Sequence[ScopedLimits], cost: Cost, count: int
    ) -> list[Taken | Refused]:
        """So many reservations in one run of the script."""
        scopes = self._book.prepared(tuple(members))
        names = [self._name(cost) for _ in range(count)]
        answers = self._run_all([self._calls.reserve(scopes, name, cost) for name in names])
        return [
            _decision(answer, name, scopes, cost)
            for name, answer in zip(names, answers, strict=True)
        ]

    def settle_together(self, leases: Sequence[Taken], actual: int) -> list[bool]:
        """Endings in as few runs of the script as possible."""
        return self._run_all(
            [
                self._calls.finish(
                    lease.scopes, lease.name, lease.cost, lease.charges, actual=actual
                )
                for lease in leases
            ]
        )

    def settle(self, lease: Taken, actual: int) -> bool:
        return self._finish(lease, actual=actual)

    def cancel(self, lease: Taken, emitted: int) -> bool:
        return self._finish(lease, actual=lease.cost.prompt_tokens + emitted)

    def undo(self, lease: Taken) -> bool:
        return self._finish(lease, actual=0, undone=True)

    def renew(self, leases: Sequence[Taken]) -> list[bool]:
        call = self._calls.renew({lease.name: lease.scopes.names for lease in leases})
        answers: list[bool] = self._run(call)
        return answers

    def peek(self, members: Sequence[ScopedLimits]) -> Readings:
        scopes = self._book.prepared(tuple(members))
        return snapshot_of(self._run(self._calls.peek(scopes)), scopes.names)

    def _name(self, cost: Cost) -> str:
        self._leases += 1
        return f"lease-{self._leases}:{cost.kibibytes}"

    def _finish(self, lease: Taken, **ending: Any) -> bool:
        call = self._calls.finish(lease.scopes, lease.name, lease.cost, lease.charges, **ending)
        return bool(self._run(call))

    def _run(self, call: Call) -> Any:
        (answer,) = self._run_all([call])
        return answer

    def _run_all(self, calls: Sequence[Call]) -> list[Any]:
        commands, places = commands_of(calls)
        answers = [self._sent(command) for command in commands]
        return [answers[number][place] for number, place in places]

    def _sent(self, command: Command) -> list[Any]:
        self._connection.send_packed_command([command.packed(in_full=True)])
        return answers_of(self._connection.read_response(disable_decoding=True))


def _decision(answer: Any, name: str, scopes: Scopes, cost: Cost) -> Taken | Refused:
    taken, about, meters = answer
    snapshot = snapshot_of(meters, scopes.names)
    if taken:
        return Taken(name, scopes, cost, about, snapshot)
    position, dimension, wait, permanent = about
    names = scopes.names[position - 1], DIMENSIONS[dimension - 1]
    return Refused(*names, wait, permanent, snapshot)
