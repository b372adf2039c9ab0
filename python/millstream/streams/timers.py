"""The deadlines of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from millstream.types import Outcome

if TYPE_CHECKING:
    from millstream.streams.branch import BranchRun
    from millstream.streams.registry import StreamRegistry
    from millstream.streams.stream import Stream


class _Progress(NamedTuple):
    tokens: int
    since_ns: int


class StreamTimers:
    """Ends the streams, or branches, of a registry that took too long.

    One sweep over all streams costs less than a timer handle a token, and a deadline is late by
    no more than one sweep. Progress is another token in the log, not a time stamp of the engine,
    so a jump of the wall clock ends nothing.
    """

    def __init__(self, registry: StreamRegistry) -> None:
        self._registry = registry
        self._progress: dict[tuple[str, int], _Progress] = {}

    def sweep(self, now_ns: int) -> None:
        """End every branch that is past one of its deadlines at ``now_ns``."""
        progress: dict[tuple[str, int], _Progress] = {}
        for stream in self._registry:
            if stream.lifecycle.ended:
                continue
            if stream.log.tail:
                stream.mark_active()
            for branch in stream.branches:
                if branch.outcome is None:
                    self._visit(stream, branch, now_ns, progress)
            _look_for_readers(stream, now_ns)
        self._progress = progress

    def _visit(
        self,
        stream: Stream,
        branch: BranchRun,
        now_ns: int,
        progress: dict[tuple[str, int], _Progress],
    ) -> None:
        key, tokens = (stream.id, branch.index), branch.token_count
        seen = self._progress.get(key)
        if seen is None or seen.tokens != tokens:
            seen = _Progress(tokens, now_ns)
        progress[key] = seen
        outcome = _overdue(
            branch, seen, age_ns=now_ns - stream.admitted_ns, quiet_ns=now_ns - seen.since_ns
        )
        if outcome is not None:
            stream.end_branch(branch.index, outcome)


def _look_for_readers(stream: Stream, now_ns: int) -> None:
    left_ns = stream.detached_ns
    if left_ns is not None and _past(now_ns - left_ns, stream.grace_ns):
        stream.end(Outcome.CLIENT_GONE)


def _overdue(branch: BranchRun, seen: _Progress, *, age_ns: int, quiet_ns: int) -> Outcome | None:
    deadlines = branch.deadlines
    if _past(age_ns, deadlines.total_ns):
        return Outcome.TIMEOUT_TOTAL
    if seen.tokens == 0:
        return Outcome.TIMEOUT_FIRST_TOKEN if _past(age_ns, deadlines.first_token_ns) else None
    return Outcome.TIMEOUT_IDLE if _past(quiet_ns, deadlines.idle_ns) else None


def _past(elapsed_ns: int, limit_ns: int | None) -> bool:
    return limit_ns is not None and elapsed_ns > limit_ns
