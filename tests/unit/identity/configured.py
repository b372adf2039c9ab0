"""Settings with tenants and ways to tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.config import Settings

TREE: dict[str, object] = {
    "engines": {"local": {}},
    "models": {"m": {"routes": [{"engine": "local"}]}},
}


def settings(
    *,
    tenants: Sequence[str] = ("acme", "other"),
    **auth: Any,
) -> Settings:
    """Settings with these tenants; ``auth`` are fields of its section."""
    tree = {**TREE, "auth": auth, "tenants": {name: {} for name in tenants}}
    return Settings.model_validate(tree)


def required(**auth: Any) -> Settings:
    """Settings that need an API key."""
    return settings(mode="required", keys_file="keys.jsonl", **auth)
