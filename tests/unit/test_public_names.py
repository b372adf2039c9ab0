from __future__ import annotations

import subprocess
import sys

import pytest

import millstream

PUBLIC_NAMES = [
    "Admission",
    "BytesInFlight",
    "ConfigError",
    "Cost",
    "CostExceedsLimit",
    "Deliveries",
    "Demand",
    "Encoder",
    "Failure",
    "Kind",
    "Lease",
    "LimitBook",
    "Limits",
    "Log",
    "MemoryLimiter",
    "MillstreamError",
    "Outcome",
    "QueuePolicy",
    "Reader",
    "Refusal",
    "RequestIdMiddleware",
    "RequestRate",
    "SamplingParams",
    "ScopedLimits",
    "Settlement",
    "SseEvent",
    "SseEventTooLarge",
    "SseParser",
    "StreamResponse",
    "StreamSource",
    "Sweeper",
    "TokenWindow",
    "Usage",
    "Wakeups",
    "__version__",
    "load_settings",
    "open_authenticator",
    "requires",
]


def test_the_public_names_are_these() -> None:
    assert millstream.__all__ == PUBLIC_NAMES


def test_the_public_names_are_sorted_and_exist() -> None:
    assert sorted(millstream.__all__) == millstream.__all__
    assert all(hasattr(millstream, name) for name in millstream.__all__)


def test_every_public_name_is_described() -> None:
    assert all(getattr(millstream, name).__doc__ for name in millstream.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec("from millstream import Nothing")


def loaded(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after ``statement``."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", script]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


HEAVY = {"fastapi", "granian", "prometheus_client", "pydantic", "torch", "transformers"}


def test_the_package_itself_loads_nothing_else() -> None:
    assert loaded("import millstream") & (HEAVY | {"msgspec", "starlette"}) == set()


# The settings are pydantic's, `requires` is a dependency of FastAPI's.
NEED_MORE = {"StreamResponse", "load_settings", "open_authenticator", "requires"}


@pytest.mark.parametrize("name", sorted({*PUBLIC_NAMES} - NEED_MORE))
def test_every_other_part_does_without_a_web_framework(name: str) -> None:
    assert loaded(f"from millstream import {name}") & (HEAVY | {"starlette"}) == set()


def test_the_response_does_with_starlette() -> None:
    assert loaded("from millstream import StreamResponse") & HEAVY == set()


@pytest.mark.parametrize("name", ["load_settings", "open_authenticator"])
def test_settings_and_credentials_load_pydantic_and_no_framework(name: str) -> None:
    assert loaded(f"from millstream import {name}") & (HEAVY | {"starlette"}) == {"pydantic"}
