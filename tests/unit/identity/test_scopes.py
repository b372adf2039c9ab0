"""A credential's scopes, trimmed by its role."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.identity.principal import Principal
from millstream.identity.scopes import EVERYDAY, Granted, allows, granted

ROLES = {
    "mobile": ("read:*", "write:post", "chat:create"),
    "ci": ("chat:create", "streams:read"),
    "admin": ("*",),
    "nothing": (),
}


def holder(scopes: str | None, role: str | None = None) -> Principal:
    return Principal(
        "jwt", "someone", role=role, scopes=None if scopes is None else tuple(scopes.split())
    )


def test_the_mobile_app_keeps_what_its_role_allows_and_the_rest_is_told() -> None:
    asked = "delete:post admin:config read:a read:b write:post write:user"
    assert granted(holder(asked, "mobile"), ROLES) == Granted(
        frozenset({"read:a", "read:b", "write:post"}),
        frozenset({"delete:post", "admin:config", "write:user"}),
    )


def test_the_ci_bot_keeps_its_own_list() -> None:
    asked = "chat:create streams:cancel streams:read read:a"
    assert granted(holder(asked, "ci"), ROLES).scopes == {"chat:create", "streams:read"}


@pytest.mark.parametrize(
    ("asked", "role", "left"),
    [
        ("*", "read:*", "read:*"),
        ("read:*", "*", "read:*"),
        ("*", "*", "*"),
        ("read:a", "read:*", "read:a"),
        ("read:*", "read:a", "read:a"),
        ("read:*", "read:*", "read:*"),
        ("read:*", "read:a read:b write:c", "read:a read:b"),
        ("*", "read:a write:b", "read:a write:b"),
        ("read:a", "write:*", ""),
        ("read:*", "reader:a reader:*", ""),
        ("reader:a", "read:*", ""),
        ("read", "read:*", ""),
        ("read:*", "read", ""),
        ("openid", "*", "openid"),
        ("", "*", ""),
        ("Read:a", "read:*", ""),
    ],
)
def test_what_is_granted_is_what_both_cover(asked: str, role: str, left: str) -> None:
    what = granted(holder(asked, "r"), {"r": tuple(role.split())})
    assert what.scopes == set(left.split())
    assert what.dropped == set(asked.split()) - set(left.split())


def test_a_credential_that_says_nothing_of_scopes_may_what_its_role_may() -> None:
    assert granted(holder(None, "mobile"), ROLES) == Granted(frozenset(ROLES["mobile"]))


def test_one_that_says_it_has_none_has_none() -> None:
    assert granted(holder("", "admin"), ROLES).scopes == frozenset()
    assert granted(holder(""), {}).scopes == frozenset()


@pytest.mark.parametrize("role", [None, "unknown", "Mobile", "nothing", ""])
@pytest.mark.parametrize("asked", [None, "*", "read:a"])
def test_where_there_are_roles_nobody_without_one_gets_anything(
    role: str | None, asked: str | None
) -> None:
    assert granted(holder(asked, role), ROLES).scopes == frozenset()


def test_without_roles_the_credential_alone_decides() -> None:
    assert granted(holder("admin:config x", "mobile"), {}) == Granted(
        frozenset({"admin:config", "x"})
    )


def test_without_roles_and_scopes_a_tenant_may_what_concerns_itself() -> None:
    what = granted(holder(None), {})
    assert what.scopes == EVERYDAY
    assert allows(what.scopes, "chat:create")
    assert not allows(what.scopes, "admin:config")
    assert not allows(what.scopes, "metrics:read")


@pytest.mark.parametrize(
    ("scopes", "needed", "allowed"),
    [
        ("chat:create", "chat:create", True),
        ("chat:*", "chat:create", True),
        ("*", "chat:create", True),
        ("chat:creat", "chat:create", False),
        ("chat", "chat:create", False),
        ("cha:*", "chat:create", False),
        (":*", "chat:create", False),
        ("*:create", "chat:create", False),
        ("*:*", "chat:create", False),
        ("", "chat:create", False),
    ],
)
def test_a_wildcard_covers_what_begins_with_its_first_word(
    scopes: str, needed: str, allowed: bool
) -> None:
    assert allows(scopes.split(), needed) is allowed


WORDS = st.sampled_from(["a", "b", "ab"])
SCOPES = st.one_of(
    st.just("*"), WORDS, st.builds("{}:{}".format, WORDS, st.one_of(WORDS, st.just("*")))
)
NEEDED = st.builds("{}:{}".format, WORDS, WORDS)


@given(st.lists(SCOPES), st.lists(SCOPES), NEEDED)
def test_a_scope_is_granted_if_and_only_if_credential_and_role_both_allow_it(
    asked: list[str], role: list[str], needed: str
) -> None:
    what = granted(Principal("jwt", "s", role="r", scopes=tuple(asked)), {"r": role})
    assert allows(what.scopes, needed) == (allows(asked, needed) and allows(role, needed))
    assert what.dropped == set(asked) - what.scopes
