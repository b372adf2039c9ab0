from __future__ import annotations

import re
from pathlib import Path

from millstream.config import load

README = Path(__file__).parents[3] / "README.md"


def test_the_configuration_in_the_readme_loads(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", README.read_text(), re.DOTALL)
    path = tmp_path / "millstream.toml"
    path.write_text(block)

    settings = load(path, environ={}).settings

    assert {"requests", "tokens"} <= set(settings.models["chat"].limits.dimensions())
