from __future__ import annotations

import tomllib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from millstream.config import Settings, load, to_toml
from millstream.config.load import Loaded
from millstream.config.section import Section
from millstream.config.show import _table
from millstream.config.sources import Sources

TEXT = st.text("aB0-_. /\"'\\#=[]{}\n\t\x00\x1f\x7fé日\U0001f600", max_size=8)
VALUES = st.recursive(
    st.booleans()
    | st.integers(-(1 << 62), 1 << 62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=20,
)


class Guarded(Section):
    """A section with a secret."""

    key: SecretStr = SecretStr("hunter2")
    """The secret."""


class GuardedSettings(Settings):
    """Settings with a section that has a secret."""

    guarded: Guarded = Guarded()
    """The section."""


def test_what_is_shown_loads_again_to_the_same_settings(tmp_path: Path) -> None:
    environ = {"MILLSTREAM__LIMITS__TOKENS": "{ limit = 5, window_ms = 100 }"}
    shown = to_toml(load(environ=environ))
    path = tmp_path / "shown.toml"
    path.write_text(shown)

    assert load(path, environ={}).settings == load(environ=environ).settings


def test_who_set_a_value_stands_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "given.toml"
    path.write_text("[server]\nport = 9000")

    shown = to_toml(load(path, {("server", "workers"): (2, "--workers")}, {}))

    assert f"port = 9000  # {path}\n" in shown
    assert "workers = 2  # --workers\n" in shown
    assert 'host = "127.0.0.1"\n' in shown


def test_what_is_unset_is_said_to_be() -> None:
    assert "# threads is unset" in to_toml(load(environ={}))


def test_a_secret_is_hidden() -> None:
    settings = load(environ={}).settings

    shown = to_toml(Loaded(GuardedSettings(**settings.model_dump()), Sources(), None))

    assert "hunter2" not in shown
    assert 'key = "**********"' in shown


def test_the_password_of_an_address_is_hidden() -> None:
    environ = {"MILLSTREAM__STORE__URL": "valkeys://user:hunter2@store.example:6380/3"}

    shown = to_toml(load(environ=environ))

    assert "hunter2" not in shown
    assert 'url = "valkeys://user:***@store.example:6380/3"' in shown


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_any_tree_reads_back_as_it_was_written(tree: dict[str, object]) -> None:
    text = "\n".join(_table(tree, (), Sources()))

    assert tomllib.loads(text) == tree
