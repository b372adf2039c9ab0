from __future__ import annotations

import millstream

PUBLIC_NAMES = [
    "ConfigError",
    "Kind",
    "MillstreamError",
    "Outcome",
    "SamplingParams",
    "Usage",
    "__version__",
]


def test_the_public_names_are_these() -> None:
    assert millstream.__all__ == PUBLIC_NAMES


def test_the_public_names_are_sorted_and_exist() -> None:
    assert sorted(millstream.__all__) == millstream.__all__
    assert all(hasattr(millstream, name) for name in millstream.__all__)
