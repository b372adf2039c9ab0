from __future__ import annotations

import re
from pathlib import Path

from millstream.config import Settings, load

README = Path(__file__).parents[3] / "README.md"


def shown(tmp_path: Path) -> list[Settings]:
    """The settings of every configuration that the README shows."""
    path = tmp_path / "millstream.toml"
    settings = []
    for block in re.findall(r"```toml\n(.*?)```", README.read_text(), re.DOTALL):
        path.write_text(block)
        settings.append(load(path, environ={}).settings)
    return settings


def test_the_configurations_in_the_readme_load(tmp_path: Path) -> None:
    shared, whole, guarded, tokens, several = shown(tmp_path)

    assert shared.store.kind == "valkey"
    assert whole.streams.resumable_default
    assert {"requests", "tokens"} <= set(whole.models["chat"].limits.dimensions())
    assert guarded.auth.mode == "required"
    assert guarded.tenants.keys() == {"acme", "guests"}
    assert tokens.auth.jwt is not None
    assert (several.limiter.kind, several.reload.url) == ("valkey", several.limiter.url)
