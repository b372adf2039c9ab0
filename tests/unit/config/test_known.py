"""Tenants that are checked once and taken over as long as they stay the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config import Document, Loaded, load
from millstream.errors import ConfigError

BASE = '[engines.local]\n[models.m]\nroutes = [{ engine = "local" }]\n'
SAME = "[tenants.same]\nlimits = { concurrency = 1 }\n"


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    path = tmp_path / "one.toml"
    path.write_text(f"{BASE}{SAME}[tenants.other]\npriority = 1\n")
    return load(path, environ={})


def again(loaded: Loaded, tenants: str) -> Loaded:
    return loaded.again(Document(1, BASE + tenants, "next"))


def test_only_what_has_changed_is_another_object(loaded: Loaded) -> None:
    new = again(loaded, f"{SAME}[tenants.other]\npriority = 2\n[tenants.more]\n")
    before, after = loaded.settings.tenants, new.settings.tenants
    assert after["same"] is before["same"]
    assert after["other"].priority == 2
    assert list(after) == ["same", "other", "more"]


def test_what_is_equal_but_of_another_type_is_checked(loaded: Loaded) -> None:
    with pytest.raises(ConfigError, match=r"next: tenants\.same\.limits\.concurrency: must not be"):
        again(loaded, SAME.replace("1", "true"))
    assert again(loaded, SAME.replace("1", "1.0")).settings == again(loaded, SAME).settings


def test_a_tenant_that_stays_is_held_to_what_has_changed_around_it(loaded: Loaded) -> None:
    named = again(loaded, '[models.n]\nroutes = [{ engine = "local" }]\n[tenants.a]\nmodels=["n"]')
    with pytest.raises(ConfigError, match=r"tenants\.a\.models\[0\]: there is no model `n`"):
        again(named, '[tenants.a]\nmodels=["n"]')


def test_each_is_compared_with_the_one_before_it(loaded: Loaded) -> None:
    second = again(loaded, SAME.replace("1", "2"))
    third = again(second, SAME)
    assert third.settings.tenants["same"] == loaded.settings.tenants["same"]
    assert "other" not in third.settings.tenants


@pytest.mark.parametrize("tenants", ["tenants = 1", "tenants.same = 1", "tenants.' ' = {}"])
def test_what_is_no_table_of_tenants_is_refused(loaded: Loaded, tenants: str) -> None:
    with pytest.raises(ConfigError, match="next: tenants"):
        loaded.again(Document(1, f"{tenants}\n{BASE}", "next"))


def test_the_environment_stays_above_tenants_that_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(BASE + SAME)
    loaded = load(path, environ={"MILLSTREAM__TENANTS__SAME__PRIORITY": "6"})
    assert again(loaded, f"# new\n{SAME}").settings.tenants["same"].priority == 6
