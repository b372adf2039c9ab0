"""`millstream keys`: API keys, made, shown and taken back."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from millstream.cli.options import config_option
from millstream.config import Settings, load
from millstream.config.auth import SCOPE_PATTERN
from millstream.config.problems import nearest
from millstream.errors import ConfigError
from millstream.identity.api_keys import ApiKey, new_key, prefix_named
from millstream.identity.key_file import changing, read_keys
from millstream.identity.principal import Principal
from millstream.identity.scopes import granted

_DAY_SECONDS = 86_400


@click.group()
def keys() -> None:
    """Make, list and revoke API keys.

    They stand in the file that auth.keys_file names. A running server takes a change at the next
    request.
    """


@keys.command()
@config_option
@click.option("--tenant", required=True, help="Whose key it is.")
@click.option("--role", help="Which of auth.roles trims its scopes.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    help="What it may do, as chat:create; may be given again.  [default: what its role may]",
)
@click.option("--expires-days", type=click.IntRange(1, 36_500), help="Days that it holds.")
def create(
    config_file: Path | None,
    tenant: str,
    role: str | None,
    scopes: tuple[str, ...],
    expires_days: int | None,
) -> None:
    """Make a key and print it, this once.

    The key goes to standard output, everything else to standard error.
    """
    settings = load(config_file).settings
    path = _file(settings)
    _check(settings, tenant, role, scopes)
    now = int(time.time())
    expires_at = None if expires_days is None else now + expires_days * _DAY_SECONDS
    with changing(path) as kept:
        text, key = new_key(
            kept, tenant=tenant, now=now, role=role, scopes=scopes or None, expires_at=expires_at
        )
        kept[key.prefix] = key
    click.echo(f"{key.prefix}: kept in {path.resolve()}; the key is shown this once:", err=True)
    click.echo(text)


@keys.command("list")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_keys(config_file: Path | None, as_json: bool) -> None:
    """Show every key that was made, revoked ones too."""
    path = _file(load(config_file).settings)
    kept = read_keys(path).values() if path.exists() else ()
    rows = [_row(key, time.time()) for key in kept]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    columns = ("prefix", "state", "tenant", "role", "scopes", "created", "expires")
    widths = [max(len(row[column]) for row in (*rows, {column: column})) for column in columns]
    for row in ({column: column for column in columns}, *rows):
        cells = (row[column].ljust(width) for column, width in zip(columns, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


@keys.command()
@config_option
@click.argument("prefix")
def revoke(config_file: Path | None, prefix: str) -> None:
    """Take a key back, for good.

    PREFIX is what `millstream keys list` shows.
    """
    path = _file(load(config_file).settings)
    name = prefix_named(prefix)

    with changing(path) as kept:
        key = None if name is None else kept.get(name)
        if key is None:
            # Not repeated in full: it may be another secret.
            raise ConfigError(f"{path}: no key begins with `{prefix[:11]}`")
        if key.revoked_at is None:
            kept[key.prefix] = msgspec.structs.replace(key, revoked_at=int(time.time()))
    click.echo(f"{key.prefix}: revoked")


def _file(settings: Settings) -> Path:
    if settings.auth.keys_file is None:
        raise ConfigError("auth.keys_file: is not set, so there is no file of keys")
    return Path(settings.auth.keys_file)


def _check(settings: Settings, tenant: str, role: str | None, scopes: tuple[str, ...]) -> None:
    """Raises `ConfigError` for a key that could never be of use, and warns of scopes in vain."""
    roles = settings.auth.roles
    if tenant not in settings.tenants:
        raise ConfigError(
            f"--tenant: there is no tenant `{tenant}`; {nearest(tenant, settings.tenants)}"
        )
    if roles and role is None:
        raise ConfigError(f"--role: is needed, since auth.roles is set; {nearest('', roles)}")
    if role is not None and role not in roles:
        raise ConfigError(f"--role: there is no role `{role}`; {nearest(role, roles)}")
    for scope in scopes:
        if not re.fullmatch(SCOPE_PATTERN, scope):
            raise ConfigError(f"--scope: `{scope}` is no scope: chat:create, chat:* and * are")
    what = granted(Principal("key", "", tenant, role, scopes or None), roles)
    if what.dropped:
        dropped = " ".join(sorted(what.dropped))
        click.echo(f"Warning: the role `{role}` does not allow, or narrows: {dropped}", err=True)


def _row(key: ApiKey, now: float) -> dict[str, str]:
    return {
        "prefix": key.prefix,
        "state": key.refusal(now) or "active",
        "tenant": key.tenant,
        "role": key.role or "-",
        "scopes": "-" if key.scopes is None else " ".join(key.scopes),
        "created": _moment(key.created_at),
        "expires": "-" if key.expires_at is None else _moment(key.expires_at),
    }


def _moment(unix_seconds: int) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")
