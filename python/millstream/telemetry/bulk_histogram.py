"""A Prometheus histogram that takes a whole stream's observations at once."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import Histogram


class BulkHistogram(Histogram):
    """A histogram that can add counts per bucket: Python runs once per stream, not per token."""

    def observe_counts(self, counts: Sequence[int], total: float) -> None:
        """Adds ``counts[i]`` observations to bucket i, the last one being +Inf; ``total`` is
        their sum.

        Raises `ValueError` if the counts do not match the buckets.
        """
        if len(counts) != len(self._buckets):
            raise ValueError(f"{len(counts)} counts for {len(self._buckets)} buckets")
        self._sum.inc(total)
        for bucket, count in zip(self._buckets, counts, strict=True):
            if count:
                bucket.inc(count)
