"""Whose request it is."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.config import Settings
from millstream.errors import NotAllowed
from millstream.identity.principal import ANONYMOUS, Principal
from millstream.identity.tenancy import Tenancy
from tests.unit.identity.configured import required, settings

Headers = list[tuple[bytes, bytes]]
ALL = ("jwt", "key", "header", "subdomain")


def holder(tenant: str | None, kind: Literal["jwt", "key"] = "key") -> Principal:
    return Principal(kind, "s", tenant)


def everything(**more: object) -> Settings:
    return required(tenant_from=ALL, base_domain="example.com", **more)


def find(settings: Settings, principal: Principal, headers: Headers | None = None) -> str:
    return Tenancy(lambda: settings).tenant_of(principal, headers or [])


def refusal(settings: Settings, principal: Principal, headers: Headers | None = None) -> str:
    with pytest.raises(NotAllowed) as raised:
        find(settings, principal, headers)
    assert raised.value.scope is None
    return raised.value.code


def host(value: bytes) -> Headers:
    return [(b"host", value)]


def named(*values: bytes) -> Headers:
    return [(b"x-tenant-id", value) for value in values]


@pytest.mark.parametrize("kind", ["jwt", "key"])
def test_the_credentials_tenant_is_the_requests(kind: Literal["jwt", "key"]) -> None:
    assert find(everything(), holder("acme", kind)) == "acme"


@pytest.mark.parametrize(
    "headers",
    [
        named(b"other"),
        named(b"other", b"other"),
        named(b"\xff"),
        host(b"other.example.com"),
        host(b"\x00"),
    ],
)
def test_no_header_is_looked_at_where_the_credential_names_a_tenant(headers: Headers) -> None:
    assert find(everything(), holder("acme"), headers) == "acme"


def test_no_header_helps_a_credential_of_an_unknown_tenant() -> None:
    assert refusal(everything(default_tenant="acme"), holder("gone"), named(b"acme")) == (
        "unknown_tenant"
    )


def test_a_header_names_the_tenant_of_a_credential_that_names_none() -> None:
    assert find(everything(), holder(None), [*host(b"acme.example.com"), *named(b"other")]) == (
        "other"
    )


def test_the_order_of_trust_is_the_configured_one() -> None:
    turned = required(tenant_from=("key", "subdomain", "header"), base_domain="example.com")
    headers = [*host(b"acme.example.com"), *named(b"other")]
    assert find(turned, holder(None), headers) == "acme"


def test_a_source_that_is_not_configured_is_not_asked() -> None:
    assert refusal(required(), holder(None), named(b"acme")) == "unknown_tenant"


def test_an_unknown_tenant_never_becomes_the_default() -> None:
    configured = everything(default_tenant="acme")
    for headers in (named(b"gone"), host(b"gone.example.com")):
        assert refusal(configured, holder(None), headers) == "unknown_tenant"


def test_who_names_nobody_is_the_default_tenant_or_refused() -> None:
    assert find(everything(default_tenant="acme"), holder(None)) == "acme"
    assert refusal(everything(), holder(None)) == "unknown_tenant"


def test_a_tenant_that_is_taken_out_of_the_settings_is_unknown_at_once() -> None:
    current = [everything()]
    tenancy = Tenancy(lambda: current[0])
    assert tenancy.tenant_of(holder("acme"), []) == "acme"
    current[0] = settings(
        mode="required", keys_file="k", tenant_from=ALL, base_domain="a.b", tenants=["other"]
    )
    with pytest.raises(NotAllowed):
        tenancy.tenant_of(holder("acme"), [])


@pytest.mark.parametrize(
    "values",
    [
        [b"acme", b"acme"],
        [b"acme", b"other"],
        [b"acme, other"],
        [b""],
        [b" acme"],
        [b"acme\x00"],
        [b"acme\n"],
        [b"-acme"],
        [b"acm\xc3\xa9"],
        [b"a" * 64],
        [b"a" * 100_000],
        [b"../acme"],
    ],
)
def test_a_header_that_cannot_be_a_name_is_refused(values: list[bytes]) -> None:
    configured = everything(default_tenant="acme")
    assert refusal(configured, holder(None), named(*values)) == "invalid_tenant"


@pytest.mark.parametrize(
    "value",
    [
        b"acme.example.com",
        b"acme.example.com:8080",
        b"acme.example.com:",
        b"acme.example.com.",
        b"acme.example.com.:443",
        b"ACME.Example.COM",
    ],
)
def test_the_label_before_the_base_domain_names_the_tenant(value: bytes) -> None:
    assert find(everything(), holder(None), host(value)) == "acme"


@pytest.mark.parametrize(
    "value",
    [
        b"example.com",
        b"example.com:80",
        b"example.org",
        b"acmeexample.com",
        b"acme.example.com.evil.org",
        b"[::1]",
        b"[::1]:8000",
        b"127.0.0.1:8000",
        b"localhost",
    ],
)
def test_another_host_names_nobody(value: bytes) -> None:
    assert find(everything(default_tenant="other"), holder(None), host(value)) == "other"


@pytest.mark.parametrize(
    "value",
    [
        b"a.acme.example.com",
        b"-acme.example.com",
        b"",
        b".example.com",
        b"acme..example.com",
        b"acme.example.com..",
        b"acme.example.com:abc",
        b"acme.example.com:123456",
        b"user@acme.example.com",
        b"acme.example.com/path",
        b"acme.example.com\x00",
        b"b\xc3\xbccher.example.com",
        b"a" * 64 + b".example.com",
        b"acme.example.com, other.example.com",
    ],
)
def test_what_is_no_host_or_more_than_one_label_is_refused(value: bytes) -> None:
    configured = everything(default_tenant="acme")
    assert refusal(configured, holder(None), host(value)) == "invalid_tenant"


def test_two_hosts_are_one_too_many() -> None:
    headers = host(b"acme.example.com") * 2
    assert refusal(everything(), holder(None), headers) == "invalid_tenant"


def test_an_international_domain_is_met_as_browsers_send_it() -> None:
    configured = required(tenant_from=("key", "subdomain"), base_domain="Bücher.example.")
    headers = host(b"acme.xn--bcher-kva.example")
    assert find(configured, holder(None), headers) == "acme"


def test_without_authentication_who_names_nobody_is_the_default_tenant() -> None:
    assert find(settings(), ANONYMOUS, named(b"acme")) == "default"
    assert find(settings(default_tenant="acme"), ANONYMOUS) == "acme"


def test_without_authentication_a_header_names_a_tenant_where_it_may() -> None:
    configured = settings(tenant_from=["header"])
    assert find(configured, ANONYMOUS, named(b"acme")) == "acme"
    assert find(configured, ANONYMOUS, named(b"default")) == "default"
    assert find(configured, ANONYMOUS) == "default"
    assert refusal(configured, ANONYMOUS, named(b"gone")) == "unknown_tenant"


def test_default_is_a_tenant_like_all_others_where_authentication_is_required() -> None:
    assert refusal(everything(), holder("default")) == "unknown_tenant"


@given(st.lists(st.tuples(st.sampled_from([b"host", b"x-tenant-id"]), st.binary(max_size=100))))
@example([(b"host", b"a." * 50_000 + b"\x00")])
@example([(b"host", b":" * 100_000)])
def test_any_bytes_are_a_tenant_or_a_refusal(headers: Headers) -> None:
    try:
        found = find(everything(default_tenant="other"), holder(None), headers)
    except NotAllowed as error:
        found = error.code
    assert found in {"acme", "other", "unknown_tenant", "invalid_tenant"}
