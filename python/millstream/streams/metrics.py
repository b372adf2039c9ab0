"""What the metrics learn from a stream: once when it begins, once when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.streams.stream import Stream
    from millstream.telemetry.metrics import Metrics


class StreamMetrics:
    """Counts streams; nothing here runs per token."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def admitted(self, stream: Stream) -> None:
        """The stream has begun."""
        self._metrics.stream_opened(stream.model)

    def closed(self, stream: Stream) -> None:
        """The stream has its outcome and its readers are gone."""
        metrics, log = self._metrics, stream.log
        metrics.stream_closed(stream.model)
        if stream.outcome is None:
            return
        metrics.request(stream.route, stream.model, stream.outcome)
        usage = stream.usage
        metrics.tokens(stream.model, prompt=usage.prompt_tokens, completion=usage.completion_tokens)
        if log.first_token_ns is not None:
            seconds = max(log.first_token_ns - stream.admitted_wall_ns, 0) / 1e9
            metrics.first_token(stream.model, seconds)
            counts, total_ns = log.inter_token_counts(), log.inter_token_sum_ns
            metrics.inter_token(stream.model, counts, total_ns / 1e9)
