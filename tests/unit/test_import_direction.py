"""Imports go one way: api → middleware → streams → engines, admission, … → store → _core.

Found by reading the source, so imports inside functions and under ``TYPE_CHECKING`` count too.
Settings are handed down as sub-trees, so every part above ``_core`` may name their types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream

PACKAGE = Path(millstream.__file__).parent

# What every part may import.
COMMON = {"errors", "types", "event_id", "telemetry", "config"}

# Each part may import those on the levels below its own, and itself.
LEVELS: list[set[str]] = [
    {"app", "asgi", "assembly", "cli", ""},  # "" is the package itself: the public names
    {"api"},
    {"middleware"},
    {"streams", "durable"},
    {"engines", "admission", "identity", "resilience", "pipeline"},
    {"store", "client"},
    {"_core"},
]

# What everybody may import must not reach into the parts itself, and the client knows none.
BELOW_ALL = {
    "errors": {"_core"},
    "types": {"errors", "_core"},
    "event_id": set(),
    "client": {"errors", "types", "event_id", "_core"},
    "telemetry": {"errors", "types", "_core"},
    "config": {"errors", "types", "_core"},
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(module: Path) -> str:
    first = module.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imported_parts(source: str) -> Iterator[str]:
    """First name below `millstream` of everything that ``source`` imports from it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "millstream":
            names = [f"millstream.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "millstream" and (part := rest.partition(".")[0]) != "__version__":
                yield part


def allowed(part: str) -> set[str]:
    if part in BELOW_ALL:
        return BELOW_ALL[part] | {part}
    level = next(level for level, parts in enumerate(LEVELS) if part in parts)
    below = set().union(*LEVELS[level + 1 :])
    same = LEVELS[level] if level == 0 else {part}
    return below | same | COMMON


@pytest.mark.parametrize("module", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_lies_below_it(module: Path) -> None:
    part = part_of(module)

    wrong = set(imported_parts(module.read_text())) - allowed(part)

    assert not wrong, f"{part or 'millstream'} must not import {sorted(wrong)}"


def test_every_part_of_the_package_has_its_place() -> None:
    known = set().union(*LEVELS) | COMMON

    assert {part_of(module) for module in modules()} <= known


def test_an_import_against_the_direction_is_seen_wherever_it_stands() -> None:
    source = (
        "import millstream.streams.hub\n"
        "from millstream import api, __version__\n"
        "def late():\n"
        "    from millstream.engines.base import Engine\n"
    )

    assert set(imported_parts(source)) == {"streams", "api", "engines"}
    assert {"streams", "api"} == {"streams", "api", "engines"} - allowed("engines")
