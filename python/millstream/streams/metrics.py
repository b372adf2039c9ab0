"""What the metrics learn from a stream: once when it begins, once when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.streams.branch import WHOLE
from millstream.streams.lifecycle import State

if TYPE_CHECKING:
    from millstream.streams.branch import BranchRun
    from millstream.streams.stream import Stream
    from millstream.telemetry.metrics import Metrics


class StreamMetrics:
    """Counts streams, each branch as a request of its own; nothing here runs per token."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def admitted(self, stream: Stream) -> None:
        """The stream has begun."""
        for branch in stream.branches:
            self._metrics.stream_opened(branch.model)

    def moved(self, stream: Stream, origin: State, to: State) -> None:
        """The stream has gone from one state to another."""
        if to is State.DETACHED:
            self._metrics.stream_detached(stream.model)
        elif origin is State.DETACHED:
            self._metrics.stream_left_detached(stream.model)

    def closed(self, stream: Stream) -> None:
        """The stream has its outcome and its readers are gone."""
        for branch in stream.branches:
            self._metrics.stream_closed(branch.model)
            if branch.outcome is not None:
                self._count(stream, branch)

    def _count(self, stream: Stream, branch: BranchRun) -> None:
        metrics, log = self._metrics, stream.log
        metrics.request(stream.route, branch.model, str(branch.outcome))
        usage = branch.usage
        metrics.tokens(
            branch.model,
            prompt=usage.prompt_tokens,
            completion=usage.completion_tokens,
            partial=branch.outcome not in WHOLE,
        )
        first_ns = log.first_token_ns_of(branch.index)
        if first_ns is not None:
            metrics.first_token(branch.model, max(first_ns - stream.admitted_wall_ns, 0) / 1e9)
            counts = log.inter_token_counts(branch.index)
            total_ns = log.inter_token_sum_ns_of(branch.index)
            metrics.inter_token(branch.model, counts, total_ns / 1e9)
