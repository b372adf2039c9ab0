"""What a scrape shows."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from millstream.telemetry.metrics import Metrics


def read(metrics: Metrics) -> dict[str, float]:
    """Every sample of an exposition as `name{a="b"}`, labels sorted."""
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    samples = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
            samples[f"{sample.name}{{{labels}}}"] = sample.value
    return samples
