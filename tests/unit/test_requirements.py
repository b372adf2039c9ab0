"""What is imported is asked for, and what is asked for is pinned."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OWN = {"benches", "examples", "millstream", "tests"}
# Part of another one of ours, which pins it exactly.
BROUGHT = {"pydantic-core": "pydantic"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names(requirements: list[str]) -> set[str]:
    return {canonical(re.split(r"[\[<>=!~ ]", one)[0]) for one in requirements}


def imported(directory: str) -> set[str]:
    """Distributions whose modules the code below ``directory`` imports."""
    modules = set()
    for path in (ROOT / directory).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.partition(".")[0])
    homes = packages_distributions()
    found = {canonical(homes[module][0]) for module in modules - OWN - sys.stdlib_module_names}
    return {BROUGHT.get(name, name) for name in found}


SERVER = names(PROJECT["dependencies"])
TORCH = SERVER | names(EXTRAS["torch"])
CLIENT = names(EXTRAS["client"])
DEV = TORCH | names(EXTRAS["dev"])


def test_the_package_asks_for_what_it_imports() -> None:
    assert imported("python") <= TORCH | CLIENT | names(EXTRAS["valkey"])


@pytest.mark.parametrize("directory", ["tests", "benches", "examples"])
def test_the_rest_is_asked_for_by_the_extra_for_development(directory: str) -> None:
    assert imported(directory) <= DEV


def test_everything_asked_for_is_pinned_by_name_and_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()

    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line) for line in lines)
    assert DEV | names(EXTRAS["demo"]) - {"millstream"} <= names(lines)
