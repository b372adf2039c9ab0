"""Who may call, and what they may do."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from millstream.config.section import Section

Algorithm = Literal["RS256", "ES256", "EdDSA", "HS256"]
SCOPE_PATTERN = r"^[A-Za-z0-9_.-]+:([A-Za-z0-9_.-]+|\*)$|^\*$"
ScopePattern = Annotated[str, Field(pattern=SCOPE_PATTERN)]
RoleName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
_DOMAIN = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
TenantSource = Literal["jwt", "key", "header", "subdomain"]


class JwtSettings(Section):
    """How JSON Web Tokens are checked (RFC 7519, RFC 8725)."""

    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)]
    """The only algorithms that are accepted, whatever a token's header says."""
    jwks_file: str | None = None
    """File with a JSON Web Key Set (RFC 7517), read again when it changes."""
    jwks_url: Annotated[str | None, Field(pattern=r"^https?://")] = None
    """Address of a JSON Web Key Set."""
    secret_env: str | None = None
    """Environment variable with the secret of HS256, at least 32 bytes."""
    issuer: str | None = None
    """Required `iss`; unset is not checked."""
    audience: str | None = None
    """Required member of `aud`; unset is not checked."""
    leeway_seconds: Annotated[int, Field(ge=0, le=600)] = 30
    """How far clocks may differ for `exp` and `nbf`."""
    cache_seconds: Annotated[float, Field(ge=1, le=86_400)] = 300.0
    """How long fetched keys are taken for fresh."""
    stale_seconds: Annotated[float, Field(ge=0, le=7 * 86_400)] = 86_400.0
    """How much longer old keys are used while new ones cannot be fetched."""

    @model_validator(mode="after")
    def _one_source_of_keys(self) -> JwtSettings:
        symmetric = "HS256" in self.algorithms
        if symmetric and len(self.algorithms) > 1:
            raise PydanticCustomError("mixed", "HS256 cannot be mixed with public-key algorithms")
        sources = (self.jwks_file, self.jwks_url, self.secret_env)
        if sum(source is not None for source in sources) != 1:
            raise PydanticCustomError(
                "one_source", "needs exactly one of `jwks_file`, `jwks_url` and `secret_env`"
            )
        if symmetric != (self.secret_env is not None):
            raise PydanticCustomError("secret", "`secret_env` goes with HS256 and with it alone")
        return self


class ClaimSettings(Section):
    """Names of the claims that are read; a dot goes one level down, but in a URL."""

    tenant: Annotated[str, Field(min_length=1, max_length=128)] = "tenant"
    """Whose request it is."""
    role: Annotated[str, Field(min_length=1, max_length=128)] = "role"
    """Which of `auth.roles` trims the scopes."""
    scopes: Annotated[str, Field(min_length=1, max_length=128)] = "scope"
    """Scopes, as a list or one text with spaces."""


class AuthSettings(Section):
    """Authentication, authorisation, and how a request's tenant is found."""

    mode: Literal["off", "required"] = "off"
    """`off` lets everybody do everything: for loopback only."""
    allow_public: bool = False
    """Let `off` hold on an address that others reach, too."""
    jwt: JwtSettings | None = None
    """Accept JSON Web Tokens."""
    keys_file: str | None = None
    """Accept the API keys of this file, which `millstream keys` writes."""
    claims: ClaimSettings = ClaimSettings()
    """Names of the claims."""
    roles: Annotated[dict[RoleName, tuple[ScopePattern, ...]], Field(default_factory=dict)]
    """Scopes that a role may have at most; with any role set, a credential needs one of them."""
    tenant_from: Annotated[tuple[TenantSource, ...], Field(min_length=1)] = ("jwt", "key")
    """Where a request's tenant is looked for, most trusted first, `header` being `X-Tenant-ID`."""
    base_domain: Annotated[str | None, Field(min_length=1, max_length=253)] = None
    """The domain under which a subdomain names a tenant."""
    default_tenant: str | None = None
    """Tenant of a request that names none; unset refuses it when `mode` is `required`."""

    @field_validator("base_domain")
    @classmethod
    def _domain(cls, name: str | None) -> str | None:
        """In the letters of which browsers make a `Host`, without the root's dot."""
        if name is None:
            return None
        try:
            ascii_name = name.encode("idna").decode().lower().removesuffix(".")
        except UnicodeError:
            ascii_name = ""
        if not _DOMAIN.fullmatch(ascii_name):
            raise PydanticCustomError("domain", "must be a domain name, as `example.com`")
        return ascii_name

    @model_validator(mode="after")
    def _no_header_over_a_credential(self) -> AuthSettings:
        """Whoever sends a credential with a tenant in it must not choose another one."""
        offered = {"jwt": self.jwt is not None, "key": self.keys_file is not None}
        credentials = [name for name, there in offered.items() if there and self.mode != "off"]
        trusted = list(takewhile(lambda source: source in offered, self.tenant_from))
        for name in credentials:
            if name not in trusted:
                raise PydanticCustomError(
                    "order",
                    "`tenant_from` must have `{name}` before `header` and `subdomain`, which "
                    "never override a credential",
                    {"name": name},
                )
        return self

    @model_validator(mode="after")
    def _whole(self) -> AuthSettings:
        if self.mode == "required" and self.jwt is None and self.keys_file is None:
            raise PydanticCustomError("no_credential", "`required` needs `jwt` or `keys_file`")
        if "subdomain" in self.tenant_from and not self.base_domain:
            raise PydanticCustomError("no_domain", "`subdomain` needs `base_domain`")
        return self
